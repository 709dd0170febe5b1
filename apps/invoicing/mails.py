"""Letters about invoices, to the people who may deal with money; carried out from the outbox."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.core.mail import send_mail

from apps.accounts.models import Membership
from apps.accounts.roles import MONEY
from apps.figures import money_format
from apps.invoicing.models import Invoice
from apps.invoicing.payments import provider_of
from apps.ledger.models import OutboxRow
from apps.sales.models import StandingRequest


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


ENDED = {
    "standing.expired": "There was no room at your price in time. The amount set aside is released.",
    "standing.refused": "It could not be served. The amount set aside is released.",
}


def standing_mail(row: OutboxRow, *, now: datetime) -> None:
    """Tell whoever filed a standing request what became of it."""
    request = StandingRequest.objects.select_related("filed_by", "contract").get(pk=row.payload["request"])
    if not request.filed_by.is_active:
        return
    if request.contract is not None:
        amount = money_format(request.contract.net, request.contract.terms["currency"])
        subject, lead = f"Request {request.number}: reserved for {amount}", "There is room, and the work is reserved."
        link = f"{settings.SITE_URL}/contracts/{request.contract.pk}"
    else:
        subject, lead = f"Request {request.number} has ended", " ".join([ENDED[row.topic], request.reason]).strip()
        link = f"{settings.SITE_URL}/standing/{request.pk}"
    send_mail(subject, f"{lead}\n\n{link}\n", None, [request.filed_by.email])
