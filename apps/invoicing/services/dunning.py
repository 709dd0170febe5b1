"""Sends reminders for overdue invoices."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.invoicing.models import DunningStep, Invoice, InvoiceState
from apps.invoicing.services.settling import event_write, invoice_lock


def schedule() -> tuple[int, ...]:
    """Return the days after the due date on which reminders are sent (the DUNNING_DAYS setting)."""
    return tuple(settings.DUNNING_DAYS)


def dunning_run(*, now: datetime) -> int:
    """Mark unpaid invoices as overdue and send the reminders that are due. Return the number of changed invoices."""
    late = Invoice.objects.filter(state__in=[InvoiceState.ISSUED, InvoiceState.OVERDUE], open__gt=0, due_at__lt=now)
    return sum(_step(invoice_id, now=now) for invoice_id in late.order_by("due_at").values_list("pk", flat=True))


@transaction.atomic
def _step(invoice_id: UUID, *, now: datetime) -> bool:
    invoice = invoice_lock(invoice_id)
    if invoice.state not in (InvoiceState.ISSUED, InvoiceState.OVERDUE) or now <= invoice.due_at:
        return False
    moved = _overdue(invoice, now=now)
    days, level = schedule(), invoice.reminders
    if level >= len(days) or now < invoice.due_at + timedelta(days=days[level]):
        return moved
    last = invoice.dunning.order_by("-level").first()
    # After an outage of the scheduler, the time between two reminders is still kept.
    if last is not None and now < last.at + timedelta(days=days[level] - days[level - 1]):
        return moved
    DunningStep.objects.create(invoice=invoice, level=level + 1, open=invoice.open, at=now)
    invoice.reminders = level + 1
    invoice.save(update_fields=["reminders"])
    event_write(invoice, "invoice.reminder", now=now, level=str(level + 1))
    return True


def _overdue(invoice: Invoice, *, now: datetime) -> bool:
    if invoice.state != InvoiceState.ISSUED:
        return False
    invoice.state = InvoiceState.OVERDUE
    invoice.save(update_fields=["state"])
    event_write(invoice, "invoice.overdue", now=now)
    return True


@transaction.atomic
def payment_failed(*, invoice_id: UUID, reason: str, now: datetime) -> Invoice:
    """Mark an invoice as overdue after a failed charge. Does nothing if the invoice is settled."""
    invoice = invoice_lock(invoice_id)
    if invoice.is_waiting:
        _overdue(invoice, now=now)
        event_write(invoice, "invoice.payment_failed", now=now, reason=reason[:300])
    return invoice


@transaction.atomic
def invoice_collect(*, invoice_id: UUID, actor: User | None, now: datetime) -> Invoice:
    """Send an overdue invoice to collection, which ends the reminders.

    Raises Problem unless the invoice is overdue and the last reminder has been sent.
    """
    invoice = invoice_lock(invoice_id)
    if invoice.state != InvoiceState.OVERDUE or invoice.reminders < len(schedule()):
        raise Problem(
            409,
            "Too early",
            f"Invoice {invoice.number} can be sent to collection only after its last reminder.",
            kind="dunning",
        )
    invoice.state = InvoiceState.COLLECTION
    invoice.save(update_fields=["state"])
    audit_record(
        action="invoice.collect",
        subject=f"invoice {invoice.number}",
        actor=actor,
        now=now,
        organisation=invoice.organisation,
    )
    return invoice
