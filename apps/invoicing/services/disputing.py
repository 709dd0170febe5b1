"""Handles disputes and refunds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import money_exact_format
from apps.invoicing.models import DisputeState, FactKind, Invoice, Payment, StripeFact
from apps.invoicing.outbox import outbox_write
from apps.invoicing.services.crediting import keys_of_facts, keys_of_notes
from apps.invoicing.services.settling import balance_of, invoice_lock
from apps.ledger.models import AccountKind, Transaction
from apps.ledger.posting import chain_lock, transaction_post
from apps.ledger.selectors import moved
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract


@dataclass(frozen=True)
class BalanceReturn:
    """The amount to withdraw from the balance because the customer has received the money back.

    `taken` is still in the balance. `gone` is no longer in the balance, so it is our loss.
    """

    taken: Decimal
    gone: Decimal


def balance_return(invoice: Invoice, amount: Decimal) -> BalanceReturn:
    """Return the amount that a lost dispute or a refund withdraws from the balance. The invoice must be locked."""
    due = min(amount, max(_balance_from_invoice(invoice), Decimal(0)))
    taken = min(due, max(balance_of(invoice.organisation_id, invoice.currency), Decimal(0)))
    return BalanceReturn(taken, subtract(due, taken))


def _balance_from_invoice(invoice: Invoice) -> Decimal:
    facts = StripeFact.objects.filter(invoice=invoice)
    paid = facts.filter(kind=FactKind.PAID).values("reference")
    payments = Payment.objects.filter(organisation_id=invoice.organisation_id, reference__in=paid)
    keys = [f"payment:{pk}" for pk in payments.order_by("id").values_list("pk", flat=True)]
    refunds = facts.filter(kind=FactKind.REFUNDED).order_by("id").values_list("reference", flat=True)
    keys += [refund_key(f"stripe:{reference}") for reference in refunds]
    back = keys_of_facts(invoice)
    put = moved(invoice.organisation_id, [*keys_of_notes(invoice), *keys, *back], AccountKind.PREPAID)
    return subtract(put.copy_negate(), exact_sum(_unavailable(invoice, back)))


def refund_key(idempotency_key: str) -> str:
    """Return the posting key for a refund of the balance."""
    return f"balance-refund:{idempotency_key}"


def _unavailable(invoice: Invoice, keys: list[str]) -> list[Decimal]:
    posted = Transaction.objects.filter(organisation_id=invoice.organisation_id, idempotency_key__in=keys)
    details = posted.order_by("sequence").values_list("detail", flat=True)
    return [
        Decimal(detail["balance_gone"]) for detail in details if isinstance(detail, dict) and "balance_gone" in detail
    ]


def balance_returned(invoice: Invoice) -> BalanceReturn | None:
    """Return what an invoice's lost disputes withdrew, or could not withdraw, from the balance; None if both amounts are 0."""
    facts = StripeFact.objects.filter(invoice=invoice, kind=FactKind.DISPUTE_LOST).order_by("id")
    lost = [fact.posting_key for fact in facts]
    found = BalanceReturn(
        moved(invoice.organisation_id, lost, AccountKind.PREPAID), exact_sum(_unavailable(invoice, lost))
    )
    return found if found.taken or found.gone else None


@transaction.atomic
def invoice_dispute(*, invoice_id: UUID, outcome: DisputeState, now: datetime) -> Invoice:
    """Store the dispute state of an invoice."""
    invoice = invoice_lock(invoice_id)
    if invoice.dispute == outcome:
        return invoice
    invoice.dispute = outcome
    invoice.save(update_fields=["dispute"])
    found = balance_returned(invoice)
    facts = {"balance_taken": decimal_text(found.taken), "balance_gone": decimal_text(found.gone)} if found else {}
    audit_record(
        action=f"invoice.dispute_{outcome.value}",
        subject=f"invoice {invoice.number}",
        actor=None,
        now=now,
        organisation=invoice.organisation,
        detail=facts,
    )
    return invoice


@transaction.atomic
def balance_refund(
    *,
    organisation: Organisation,
    amount: Decimal,
    currency: str,
    reference: str,
    idempotency_key: str,
    actor: User | None,
    now: datetime,
) -> Transaction:
    """Refund part of the customer's balance, once for each key. Raises Problem (409) if the balance is too small."""
    chain_lock(organisation.id)
    key = refund_key(idempotency_key)
    known = Transaction.objects.filter(organisation=organisation, idempotency_key=key).exists()
    left = balance_of(organisation.id, currency)
    if not known and not 0 < amount <= left:
        raise Problem(
            409,
            "Not refunded",
            f"The balance is {money_exact_format(left, currency)}. Enter an amount above 0 that does not exceed the balance.",
            kind="balance",
        )
    posted, is_new = transaction_post(
        organisation_id=organisation.id,
        kind="refund",
        idempotency_key=key,
        subject=f"refund {reference}",
        currency=currency,
        detail={"reference": reference},
        now=now,
        amounts={AccountKind.PREPAID: amount, AccountKind.BANK: amount.copy_negate()},
    )
    if is_new:
        facts = {"amount": decimal_text(amount), "currency": currency, "reference": reference}
        outbox_write(organisation_id=organisation.id, topic="refund.made", payload=facts, now=now)
        audit_record(
            action="balance.refund",
            subject=f"refund {reference}",
            actor=actor,
            now=now,
            organisation=organisation,
            detail=facts,
        )
    return posted
