"""Sends e-mails about invoices and standing requests."""

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
    """Mail an invoice or a reminder to owners and billing members. A reminder is not sent if the invoice is settled."""
    invoice = Invoice.objects.get(pk=row.payload["invoice"])
    if row.topic == "invoice.reminder" and not invoice.is_waiting:
        return
    members = Membership.objects.filter(organisation_id=row.organisation_id, role__in=MONEY, user__is_active=True)
    send_mail(*mail_text(row, invoice), None, sorted(members.values_list("user__email", flat=True)))


def mail_text(row: OutboxRow, invoice: Invoice) -> tuple[str, str]:
    """Return the subject and the text of the e-mail."""
    currency = invoice.document["currency"]
    instructions = provider_of(invoice).instructions(invoice)
    link = f"{settings.SITE_URL}/invoices/{invoice.pk}"
    if row.topic == "invoice.reminder":
        amount = money_format(Decimal(row.payload["open"]), currency)
        subject = f"Reminder {row.payload['level']}: invoice {invoice.number}"
        lead = f"Invoice {invoice.number} was due on {invoice.due_at:%d %B %Y}. {amount} is still open."
    else:
        amount = money_format(invoice.due, currency)
        subject = f"Invoice {invoice.number}: {amount}"
        lead = f"Invoice {invoice.number} for {amount} is due on {invoice.due_at:%d %B %Y}."
    how = (
        f"{instructions.message or instructions.text} Reference: {instructions.reference}."
        if invoice.is_waiting
        else "There is nothing to pay."
    )
    return subject, f"{lead}\n{how}\n\n{link}\n"


REQUEST_ENDED = {
    "standing.expired": "No capacity became available in time at your price. The reserved amount is released.",
    "standing.refused": "The request could not be fulfilled. The reserved amount is released.",
}


def standing_mail(row: OutboxRow, *, now: datetime) -> None:
    """Mail the outcome of a standing request to the person who filed it."""
    request = StandingRequest.objects.select_related("filed_by", "contract").get(pk=row.payload["request"])
    if not request.filed_by.is_active:
        return
    if request.contract is not None:
        amount = money_format(request.contract.net, request.contract.terms["currency"])
        subject, lead = (
            f"Request {request.number}: reserved for {amount}",
            "Capacity became available and is reserved for your work.",
        )
        link = f"{settings.SITE_URL}/contracts/{request.contract.pk}"
    else:
        subject, lead = (
            f"Request {request.number} has ended",
            " ".join([REQUEST_ENDED[row.topic], request.reason]).strip(),
        )
        link = f"{settings.SITE_URL}/standing/{request.pk}"
    send_mail(subject, f"{lead}\n\n{link}\n", None, [request.filed_by.email])
