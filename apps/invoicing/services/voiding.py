"""Voids invoices that should not have been issued."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.invoicing.models import CreditNote, Invoice, InvoicedUsage, InvoiceState, ReleasedUsage, SettlementKind
from apps.invoicing.services.crediting import credit_note_write
from apps.invoicing.services.settling import balance_restore, change_lock, event_write


@transaction.atomic
def invoice_void(*, invoice_id: UUID, reason: str, actor: User | None, now: datetime) -> Invoice:
    """Void an unpaid invoice with a credit note for the full amount. The usage can be invoiced again.

    Raises Problem if the invoice is already void, if any part was settled other than from the balance, or if it is
    unknown whether a card was charged.
    """
    invoice = change_lock(invoice_id)
    if invoice.state == InvoiceState.VOID:
        raise Problem(409, "Already void", f"Invoice {invoice.number} is already void.", kind="invoice-void")
    by_balance = invoice.settlements.filter(kind=SettlementKind.BALANCE).aggregate(sum=Sum("amount"))["sum"] or Decimal(
        0
    )
    if invoice.due == 0 or invoice.settlements.exclude(kind=SettlementKind.BALANCE).exists():
        raise Problem(
            409,
            "Not voided",
            f"Part of invoice {invoice.number} has already been settled. Issue a credit note instead.",
            kind="invoice-settled",
        )
    if by_balance:
        balance_restore(invoice, by_balance, now=now)
    note = credit_note_write(invoice, None, reason, actor, now, final=InvoiceState.VOID)
    _release(invoice, note)
    event_write(invoice, "invoice.voided", now=now)
    return invoice


def _release(invoice: Invoice, note: CreditNote) -> None:
    # The database allows the deletion of links only for voided invoices.
    claims = InvoicedUsage.objects.filter(line__invoice=invoice)
    ReleasedUsage.objects.bulk_create(
        ReleasedUsage(usage_id=usage, line_id=line, credit_note=note)
        for usage, line in claims.order_by("usage_id").values_list("usage_id", "line_id")
    )
    claims.delete()
