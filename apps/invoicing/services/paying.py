"""Records payments and writes off debts."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from apps.accounts.failpoints import failpoint
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import money_exact_format, money_format
from apps.invoicing.models import Invoice, InvoiceState, Payment, SettlementKind
from apps.invoicing.outbox import outbox_write
from apps.invoicing.payments import provider_of
from apps.invoicing.services.settling import change_lock, event_write, invoice_lock, settle
from apps.ledger.models import AccountKind
from apps.ledger.posting import chain_lock, transaction_post
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract


@transaction.atomic
def invoice_mark_paid(
    *,
    invoice_id: UUID,
    amount: Decimal,
    reference: str,
    actor: User | None,
    now: datetime,
    is_overpaid: bool = True,
) -> Invoice:
    """Record a payment made outside the payment provider, such as a bank transfer.

    Raises Problem in the same cases as `invoice_payment_take`, or if it is unknown whether a card was charged.
    """
    change_lock(invoice_id)
    return invoice_payment_take(
        invoice_id=invoice_id, amount=amount, reference=reference, actor=actor, now=now, is_overpaid=is_overpaid
    )


@transaction.atomic
def invoice_payment_take(
    *,
    invoice_id: UUID,
    amount: Decimal,
    reference: str,
    actor: User | None,
    now: datetime,
    is_overpaid: bool = True,
) -> Invoice:
    """Record a payment of an invoice. An excess over the open amount is added to the customer's balance.

    A repeated reference counts as the same payment. Raises Problem if nothing is open or the provider refuses the
    receipt. If `is_overpaid` is False, also raises Problem if the amount exceeds the open amount.
    """
    invoice = invoice_lock(invoice_id)
    reference = provider_of(invoice).receipt_check(invoice, amount=amount, reference=reference)
    key = f"payment:{invoice.provider}:{invoice.id}:{reference}"
    known = Payment.objects.filter(organisation_id=invoice.organisation_id, idempotency_key=key).first()
    if known is not None and known.amount == amount:
        return invoice
    if not invoice.is_waiting and invoice.state != InvoiceState.WRITTEN_OFF:
        state = invoice.get_state_display().lower()
        raise Problem(409, "Nothing is open", f"Invoice {invoice.number} is {state}.", kind="invoice-settled")
    if not is_overpaid:
        _overpayment_check(invoice, amount)
    invoice.payment_reference = reference
    invoice.save(update_fields=["payment_reference"])
    payment_record(
        organisation=invoice.organisation,
        invoice=invoice,
        amount=amount,
        currency=invoice.currency,
        provider=invoice.provider,
        reference=reference,
        idempotency_key=key,
        actor=actor,
        now=now,
    )
    if invoice.state == InvoiceState.WRITTEN_OFF and _bad_debt(invoice) == 0:
        invoice.state, invoice.paid_at = InvoiceState.PAID, now
        invoice.save(update_fields=["state", "paid_at"])
        event_write(invoice, "invoice.paid", now=now)
    return invoice


def _overpayment_check(invoice: Invoice, amount: Decimal) -> None:
    owed = exact_sum([invoice.open, _bad_debt(invoice)])
    if amount > owed:
        currency = invoice.document["currency"]
        raise Problem(
            409,
            "More than the open amount",
            f"{money_format(owed, currency)} of invoice {invoice.number} is open, but you entered "
            f"{money_format(amount, currency)}. Correct the amount, or confirm that this amount arrived. The excess is then "
            "added to the customer's balance.",
            kind="overpaid",
        )


def _bad_debt(invoice: Invoice) -> Decimal:
    paid = Payment.objects.filter(
        organisation_id=invoice.organisation_id, idempotency_key__startswith=f"payment:{invoice.provider}:{invoice.id}:"
    ).aggregate(sum=Sum("amount"))["sum"]
    by_kind = dict(invoice.settlements.order_by().values_list("kind").annotate(sum=Sum("amount")))
    written = by_kind.get(SettlementKind.WRITE_OFF, Decimal(0))
    since = subtract(paid or Decimal(0), by_kind.get(SettlementKind.PAYMENT, Decimal(0)))
    return max(subtract(written, since), Decimal(0))


@transaction.atomic
def payment_record(
    *,
    organisation: Organisation,
    invoice: Invoice | None = None,
    amount: Decimal,
    currency: str,
    provider: str,
    reference: str,
    idempotency_key: str,
    actor: User | None,
    now: datetime,
) -> Payment:
    """Record and post a payment. An excess over the invoice's open amount is added to the customer's balance.

    The invoice must be locked. If the key was used before, the existing payment is returned. Raises Problem (409) if
    the existing payment has another amount.
    """
    chain_lock(organisation.id)
    known = _recorded_before(organisation, idempotency_key, amount, currency)
    if known is not None:
        return known
    is_written_off = invoice is not None and invoice.state == InvoiceState.WRITTEN_OFF
    recovers = min(amount, _bad_debt(invoice)) if invoice is not None and is_written_off else Decimal(0)
    payment = Payment.objects.create(
        organisation=organisation,
        amount=amount,
        currency=currency,
        provider=provider,
        reference=reference,
        idempotency_key=idempotency_key,
        at=now,
        recorded_by=actor,
    )
    settles = min(amount, invoice.open) if invoice else Decimal(0)
    subject = f"invoice {invoice.number}" if invoice else f"payment {reference}"
    _payment_post(payment, subject, settles=settles, recovers=recovers)
    if invoice is not None and settles:
        settle(invoice, settles, SettlementKind.PAYMENT, now=now, payment=payment)
    failpoint("payment.recorded")
    facts = {"amount": decimal_text(amount), "currency": currency, "reference": reference}
    outbox_write(organisation_id=organisation.id, topic="payment.received", payload=facts, now=now)
    audit_record(
        action="payment.record", subject=subject, actor=actor, organisation=organisation, now=now, detail=facts
    )
    return payment


def _recorded_before(organisation: Organisation, key: str, amount: Decimal, currency: str) -> Payment | None:
    known = Payment.objects.filter(organisation=organisation, idempotency_key=key).first()
    if known is not None and (known.amount, known.currency) != (amount, currency):
        detail = f"The reference {known.reference!r} is already recorded for {money_exact_format(known.amount, known.currency)}."
        raise Problem(409, "Already recorded", detail, kind="payment-conflict")
    return known


def _payment_post(payment: Payment, subject: str, *, settles: Decimal, recovers: Decimal) -> None:
    transaction_post(
        organisation_id=payment.organisation_id,
        kind="payment",
        idempotency_key=f"payment:{payment.id}",
        subject=subject,
        currency=payment.currency,
        detail={"reference": payment.reference, "provider": payment.provider},
        now=payment.at,
        amounts={
            AccountKind.BANK: payment.amount,
            AccountKind.RECEIVABLE: settles.copy_negate(),
            AccountKind.BAD_DEBT: recovers.copy_negate(),
            AccountKind.PREPAID: subtract(exact_sum([settles, recovers]), payment.amount),
        },
    )


@transaction.atomic
def invoice_write_off(*, invoice_id: UUID, reason: str, actor: User | None, now: datetime) -> Invoice:
    """Move the open amount of an invoice from receivable to bad debt.

    Raises Problem if nothing is open, or if it is unknown whether a card was charged for the invoice.
    """
    invoice = change_lock(invoice_id)
    if not invoice.is_waiting or not reason.strip():
        raise Problem(
            409,
            "Not written off",
            f"A write-off needs a reason and an open invoice. Invoice {invoice.number} "
            f"is {invoice.get_state_display().lower()}.",
            kind="invoice-settled",
        )
    amount = invoice.open
    transaction_post(
        organisation_id=invoice.organisation_id,
        kind="write-off",
        idempotency_key=f"invoice:{invoice.id}:write-off",
        subject=f"invoice {invoice.number}",
        currency=invoice.currency,
        detail={"reason": reason.strip()[:300]},
        now=now,
        amounts={AccountKind.BAD_DEBT: amount, AccountKind.RECEIVABLE: amount.copy_negate()},
    )
    settle(invoice, amount, SettlementKind.WRITE_OFF, now=now, final=InvoiceState.WRITTEN_OFF)
    event_write(invoice, "invoice.written_off", now=now)
    audit_record(
        action="invoice.write_off",
        subject=f"invoice {invoice.number}",
        actor=actor,
        now=now,
        organisation=invoice.organisation,
        detail={"amount": decimal_text(amount), "reason": reason.strip()[:300]},
    )
    return invoice
