"""Void: an invoice that should not have been issued is undone, and what it was about may be invoiced again."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.invoicing.models import CreditNote, Invoice, InvoicedUsage, InvoiceState, ReleasedUsage, SettlementKind
from apps.invoicing.services.crediting import note_write
from apps.invoicing.services.settling import balance_give_back, change_lock, tell


@transaction.atomic
def invoice_void(*, invoice_id: UUID, reason: str, actor: User | None, now: datetime) -> Invoice:
    """Undo an unpaid invoice by a credit note over all of it, and free its usage: the next draft takes it. What the
    invoice took of the customer's balance when it was issued is there again.

    To give the usage away instead, issue a credit note over everything. Raises Problem when anything else settled a part of
    it, when it is void already, or while it is not known whether a card was charged for it.
    """
    invoice = change_lock(invoice_id)
    if invoice.state == InvoiceState.VOID:
        raise Problem(409, "Void already", f"Invoice {invoice.number} is void already.", kind="invoice-void")
    by_balance = invoice.settlements.filter(kind=SettlementKind.BALANCE).aggregate(sum=Sum("amount"))["sum"] or Decimal(
        0
    )
    if invoice.due == 0 or invoice.settlements.exclude(kind=SettlementKind.BALANCE).exists():
        raise Problem(
            409,
            "Not voided",
            f"Something of invoice {invoice.number} is settled; issue a credit note.",
            kind="invoice-settled",
        )
    if by_balance:
        balance_give_back(invoice, by_balance, now=now)
    note = note_write(invoice, None, reason, actor, now, final=InvoiceState.VOID)
    _release(invoice, note)
    tell(invoice, "invoice.voided", now=now)
    return invoice


def _release(invoice: Invoice, note: CreditNote) -> None:
    """That the rows were on this invoice is kept; the claim itself ends, which the database allows for no other reason."""
    claims = InvoicedUsage.objects.filter(line__invoice=invoice)
    ReleasedUsage.objects.bulk_create(
        ReleasedUsage(usage_id=usage, line_id=line, credit_note=note)
        for usage, line in claims.order_by("usage_id").values_list("usage_id", "line_id")
    )
    claims.delete()
