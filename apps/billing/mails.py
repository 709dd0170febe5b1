"""Letters about invoices, to the people who may deal with money; carried out from the outbox."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.core.mail import send_mail

from apps.accounts.models import Membership
from apps.accounts.roles import MONEY
from apps.billing.models import Invoice
from apps.billing.payments import provider_of
from apps.figures import money_format
from apps.ledger.models import OutboxRow


def invoice_mail(row: OutboxRow, *, now: datetime) -> None:
    """Send what a row of the outbox says. A reminder whose invoice was settled meanwhile is not sent."""
    invoice = Invoice.objects.get(pk=row.payload["invoice"])
    if row.topic == "invoice.reminder" and not invoice.is_waiting:
        return
    members = Membership.objects.filter(organisation_id=row.organisation_id, role__in=MONEY, user__is_active=True)
    send_mail(*words(row, invoice), None, sorted(members.values_list("user__email", flat=True)))


def words(row: OutboxRow, invoice: Invoice) -> tuple[str, str]:
    """Subject and text."""
    currency = invoice.document["currency"]
    instructions = provider_of(invoice).instructions(invoice)
    link = f"{settings.SITE_URL}/invoices/{invoice.pk}"
    if row.topic == "invoice.reminder":
        amount = money_format(Decimal(row.payload["open"]), currency)
        subject = f"Reminder {row.payload['level']}: invoice {invoice.number}"
        lead = f"Of invoice {invoice.number}, due on {invoice.due_at:%d %B %Y}, {amount} are still open."
    else:
        amount = money_format(invoice.due, currency)
        subject = f"Invoice {invoice.number}: {amount}"
        lead = f"Invoice {invoice.number} asks for {amount}, due on {invoice.due_at:%d %B %Y}."
    how = (
        f"{instructions.text} Reference: {instructions.reference}." if invoice.is_waiting else "Nothing is to be paid."
    )
    return subject, f"{lead}\n{how}\n\n{link}\n"
