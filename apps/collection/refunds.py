"""Records refunds and disputed payments."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import stripe
from django.db import transaction

from apps.accounts.problems import Problem
from apps.collection.amounts import amount_of
from apps.collection.gateway import call_with_retry
from apps.collection.pull import fact_record, intent_sync
from apps.invoicing.models import DisputeState, FactKind, Invoice, StripeFact
from apps.invoicing.outbox import outbox_write
from apps.invoicing.services import balance_refund, invoice_dispute
from apps.invoicing.services.disputing import balance_return
from apps.invoicing.services.settling import invoice_lock
from apps.ledger.models import AccountKind
from apps.ledger.posting import transaction_post
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import subtract

PURPOSE, BALANCE = "takt_purpose", "balance"  # metadata of a refund of the balance
TOPICS = {
    FactKind.REFUNDED: "refund.made",
    FactKind.REFUND_FAILED: "refund.failed",
    FactKind.DISPUTED: "dispute.opened",
    FactKind.DISPUTE_WON: "dispute.closed",
    FactKind.DISPUTE_LOST: "dispute.closed",
}
OUTCOMES = {
    "won": (FactKind.DISPUTE_WON, DisputeState.WON, AccountKind.BANK),
    "lost": (FactKind.DISPUTE_LOST, DisputeState.LOST, AccountKind.BAD_DEBT),
}


def _move(
    invoice: Invoice, kind: FactKind, reference: str, minor: int, to: AccountKind, source: AccountKind, now: datetime
) -> bool:
    # The customer's balance pays for a lost dispute as far as possible. The rest is our cost.
    amount = amount_of(minor, currency=invoice.currency)
    if not fact_record(invoice, kind, reference, amount, now):
        return False
    amounts, balance_facts = {to: amount, source: amount.copy_negate()}, {}
    if kind in {FactKind.DISPUTE_LOST, FactKind.REFUNDED}:
        found = balance_return(invoice_lock(invoice.id), amount)
        amounts |= {to: subtract(amount, found.taken), AccountKind.PREPAID: found.taken}
        if found.taken or found.gone:
            balance_facts = {"balance_taken": decimal_text(found.taken), "balance_gone": decimal_text(found.gone)}
    transaction_post(
        organisation_id=invoice.organisation_id,
        kind=kind.value,
        idempotency_key=StripeFact(kind=kind.value, reference=reference).posting_key,
        subject=f"invoice {invoice.number}",
        currency=invoice.currency,
        detail={"reference": reference, **balance_facts},
        now=now,
        amounts=amounts,
    )
    facts = {
        "invoice": str(invoice.id),
        "number": invoice.number,
        "amount": decimal_text(amount),
        "currency": invoice.currency,
        **balance_facts,
    }
    outbox_write(organisation_id=invoice.organisation_id, topic=TOPICS[kind], payload=facts, now=now)
    return True


def _id_or_none(thing: object) -> str | None:
    return str(thing) if thing else None


@transaction.atomic
def refund_sync(*, refund_id: str, client: stripe.StripeClient, now: datetime) -> bool:
    """Record and post a refund that succeeded or failed.

    Return False if the refund is already recorded, pending or not ours. Raises gateway.OutcomeUnknown.
    """
    refund = call_with_retry(lambda: client.v1.refunds.retrieve(refund_id))
    push = intent_sync(intent=_id_or_none(refund.payment_intent), client=client, now=now)
    if push is None:
        return False
    invoice, minor = push.invoice, refund.amount
    if refund.status == "succeeded":
        return _refunded(invoice, refund, now)
    is_out = StripeFact.objects.filter(kind=FactKind.REFUNDED, reference=refund_id).exists()
    if refund.status not in {"failed", "canceled"} or not is_out:
        return False
    # A failed refund is owed to the customer.
    return _move(invoice, FactKind.REFUND_FAILED, refund_id, minor, AccountKind.BANK, AccountKind.PREPAID, now)


def _refunded(invoice: Invoice, refund: stripe.Refund, now: datetime) -> bool:
    # Money from this invoice that went to the customer's balance is taken from that balance. The rest is our cost.
    purpose: Any = refund.metadata[PURPOSE] if refund.metadata and PURPOSE in refund.metadata else ""
    if purpose == BALANCE and not StripeFact.objects.filter(kind=FactKind.REFUNDED, reference=refund.id).exists():
        amount = amount_of(refund.amount, currency=invoice.currency)
        try:
            with transaction.atomic():
                balance_refund(
                    organisation=invoice.organisation,
                    amount=amount,
                    currency=invoice.currency,
                    reference=refund.id,
                    idempotency_key=f"stripe:{refund.id}",
                    actor=None,
                    now=now,
                )
                return fact_record(invoice, FactKind.REFUNDED, refund.id, amount, now)
        except Problem as less:
            if less.kind != "balance":
                raise
    return _move(invoice, FactKind.REFUNDED, refund.id, refund.amount, AccountKind.REFUND, AccountKind.BANK, now)


@transaction.atomic
def dispute_sync(*, dispute_id: str, client: stripe.StripeClient, now: datetime) -> None:
    """Record and post a dispute. Inquiries (status warning_*) are ignored.

    Raises gateway.OutcomeUnknown.
    """
    dispute = call_with_retry(lambda: client.v1.disputes.retrieve(dispute_id))
    push = intent_sync(intent=_id_or_none(dispute.payment_intent), client=client, now=now)
    if push is None or dispute.status not in {"needs_response", "under_review", "won", "lost"}:
        return
    invoice, amount = push.invoice, dispute.amount
    if _move(invoice, FactKind.DISPUTED, dispute_id, amount, AccountKind.DISPUTED, AccountKind.BANK, now):
        invoice_dispute(invoice_id=invoice.id, outcome=DisputeState.OPEN, now=now)
    if dispute.status in OUTCOMES:
        kind, outcome, account = OUTCOMES[str(dispute.status)]
        if _move(invoice, kind, dispute_id, amount, account, AccountKind.DISPUTED, now):
            invoice_dispute(invoice_id=invoice.id, outcome=outcome, now=now)
