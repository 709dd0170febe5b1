"""Reduces the open amount of an invoice.

Locks are taken in this order: the organisation's chain, then the invoice.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from apps.invoicing.models import CreditNote, Invoice, InvoiceState, Payment, Settlement, SettlementKind
from apps.invoicing.outbox import outbox_write
from apps.invoicing.payments import PROVIDERS
from apps.ledger.models import AccountKind
from apps.ledger.posting import chain_lock, transaction_post
from apps.ledger.selectors import balances
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract


def invoice_lock(invoice_id: UUID) -> Invoice:
    """Lock the organisation's chain and the invoice. Return the invoice. Raises Invoice.DoesNotExist."""
    chain_lock(Invoice.objects.values_list("organisation_id", flat=True).get(pk=invoice_id))
    return (
        Invoice.objects.select_for_update(no_key=True, of=("self",)).select_related("organisation").get(pk=invoice_id)
    )


def change_lock(invoice_id: UUID) -> Invoice:
    """Lock and return an invoice. Raises Problem (409) if it is unknown whether the customer was charged."""
    invoice = invoice_lock(invoice_id)
    for provider in PROVIDERS.values():
        provider.change_check(invoice)
    return invoice


def settle(
    invoice: Invoice,
    amount: Decimal,
    kind: SettlementKind,
    *,
    now: datetime,
    payment: Payment | None = None,
    credit_note: CreditNote | None = None,
    final: InvoiceState = InvoiceState.PAID,
) -> None:
    """Settle a locked invoice by `amount`, which must be above 0 and at most the open amount.

    If nothing stays open, the invoice's state becomes `final`.
    """
    Settlement.objects.create(
        invoice=invoice, kind=kind, amount=amount, payment=payment, credit_note=credit_note, at=now
    )
    invoice.open = subtract(invoice.open, amount)
    if invoice.open == 0:
        invoice.state = final
        invoice.paid_at = now if final == InvoiceState.PAID else None
    invoice.save(update_fields=["open", "state", "paid_at"])
    if invoice.state == InvoiceState.PAID:
        event_write(invoice, "invoice.paid", now=now)


def event_write(invoice: Invoice, topic: str, *, now: datetime, **more: str) -> None:
    """Write an outbox message about an invoice."""
    payload = {
        "invoice": str(invoice.id),
        "number": invoice.number,
        "state": str(invoice.state),
        "open": decimal_text(invoice.open),
        "due": decimal_text(invoice.due),
        "currency": invoice.currency,
        **more,
    }
    outbox_write(organisation_id=invoice.organisation_id, topic=topic, payload=payload, now=now)


def balance_of(organisation_id: UUID, currency: str) -> Decimal:
    """Return the amount that the customer has paid or been credited in excess of the invoices."""
    return subtract(Decimal(0), balances(organisation_id).get((AccountKind.PREPAID.value, currency), Decimal(0)))


def balance_apply(invoice: Invoice, *, now: datetime) -> None:
    """Settle a new invoice from the customer's balance, as far as possible."""
    amount = min(balance_of(invoice.organisation_id, invoice.currency), invoice.open)
    if amount <= 0:
        return
    _balance_post(invoice, amount, "balance", now)
    settle(invoice, amount, SettlementKind.BALANCE, now=now)


def _balance_post(invoice: Invoice, amount: Decimal, act: str, now: datetime) -> None:
    transaction_post(
        organisation_id=invoice.organisation_id,
        kind="balance",
        idempotency_key=f"invoice:{invoice.id}:{act}",
        subject=f"invoice {invoice.number}",
        currency=invoice.currency,
        amounts={AccountKind.PREPAID: amount, AccountKind.RECEIVABLE: amount.copy_negate()},
        detail={},
        now=now,
    )


def balance_restore(invoice: Invoice, amount: Decimal, *, now: datetime) -> None:
    """Undo `balance_apply`. The invoice must be locked, and must not be settled in any other way."""
    _balance_post(invoice, amount.copy_negate(), "balance-back", now)
    Settlement.objects.create(invoice=invoice, kind=SettlementKind.BALANCE, amount=amount.copy_negate(), at=now)
    invoice.open = exact_sum([invoice.open, amount])
    if invoice.state == InvoiceState.PAID:
        invoice.state, invoice.paid_at = InvoiceState.ISSUED, None
    invoice.save(update_fields=["open", "state", "paid_at"])
