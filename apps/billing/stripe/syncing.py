"""Brings us to Stripe's present state. What an event says is never believed: the object is fetched."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import stripe
from django.db import transaction

from apps.accounts.problems import Problem
from apps.billing.models import FactKind, Invoice, PushState, StripeFact, StripePush
from apps.billing.outbox import outbox_write
from apps.billing.services import invoice_mark_paid, payment_failed, payment_record
from apps.billing.stripe.amounts import amount_of
from apps.billing.stripe.gateway import called
from apps.ledger.models import AccountKind
from apps.ledger.posting import transaction_post
from apps.pricing.rating import decimal_text

STATES = {
    "open": PushState.OPEN, "paid": PushState.PAID, "void": PushState.VOID, "uncollectible": PushState.UNCOLLECTIBLE,
}  # fmt: skip

TOPICS = {
    FactKind.REFUNDED: "refund.made",
    FactKind.DISPUTED: "dispute.opened",
    FactKind.DISPUTE_WON: "dispute.closed",
    FactKind.DISPUTE_LOST: "dispute.closed",
}


@transaction.atomic
def invoice_sync(*, stripe_id: str, client: stripe.StripeClient, now: datetime) -> StripePush | None:
    """Take over an invoice's state and payments; None when it is not ours. Raises gateway.Uncertain.

    The push row stays locked while Stripe is asked, so that an older answer never overwrites a newer one.
    """
    push = StripePush.objects.select_for_update().filter(stripe_id=stripe_id).first()
    if push is None:
        return None
    found = called(lambda: client.v1.invoices.retrieve(stripe_id))
    push.state = STATES.get(str(found.status), PushState(push.state))
    push.hosted_url = str(found.hosted_invoice_url or "")
    push.save(update_fields=["state", "hosted_url"])
    payments = called(lambda: client.v1.invoice_payments.list({"invoice": stripe_id, "status": "paid", "limit": 100}))
    for payment in payments.data:
        _paid(push.invoice, str(payment.payment.payment_intent), int(payment.amount_paid or 0), now=now)
    if found.status == "open" and found.attempt_count:
        _failed(push.invoice, f"{stripe_id}:{found.attempt_count}", now=now)
    return push


def _fact(invoice: Invoice, kind: FactKind, reference: str, amount: Decimal, now: datetime) -> bool:
    """Record it; False when it is known."""
    _, is_new = StripeFact.objects.get_or_create(
        kind=kind, reference=reference, defaults={"invoice": invoice, "amount": amount, "at": now}
    )
    return is_new


def _paid(invoice: Invoice, intent: str, minor: int, *, now: datetime) -> None:
    amount = amount_of(minor, exponent=invoice.document["currency"]["exponent"])
    if not _fact(invoice, FactKind.PAID, intent, amount, now):
        return
    try:
        with transaction.atomic():
            invoice_mark_paid(invoice_id=invoice.id, amount=amount, reference=intent, actor=None, now=now)
    except Problem as refusal:
        if refusal.kind != "invoice-settled":
            raise
        # It was settled another way meanwhile: the money is the customer's balance.
        payment_record(
            organisation=invoice.organisation, amount=amount, currency=invoice.currency, provider="stripe", reference=intent,
            idempotency_key=f"stripe:{intent}", actor=None, now=now,
        )  # fmt: skip


def _failed(invoice: Invoice, reference: str, *, now: datetime) -> None:
    if _fact(invoice, FactKind.FAILED, reference, Decimal(0), now):
        payment_failed(invoice_id=invoice.id, reason="The card was declined.", now=now)


def _push_of_intent(intent: str, *, client: stripe.StripeClient, now: datetime) -> StripePush | None:
    """The invoice that a payment was for, brought up to date first; None when it is not ours."""
    payments = called(
        lambda: client.v1.invoice_payments.list({"payment": {"type": "payment_intent", "payment_intent": intent}})
    )
    return next((invoice_sync(stripe_id=str(one.invoice), client=client, now=now) for one in payments.data), None)


def _move(
    invoice: Invoice, kind: FactKind, reference: str, minor: int, to: AccountKind, source: AccountKind, now: datetime
) -> bool:
    """Record that money moved, and post it; False when it is known."""
    amount = amount_of(minor, exponent=invoice.document["currency"]["exponent"])
    if not _fact(invoice, kind, reference, amount, now):
        return False
    transaction_post(
        organisation_id=invoice.organisation_id, kind=kind.value, idempotency_key=f"stripe:{kind.value}:{reference}",
        subject=f"invoice {invoice.number}", currency=invoice.currency, detail={"reference": reference}, now=now,
        amounts={to: amount, source: amount.copy_negate()},
    )  # fmt: skip
    said = {
        "invoice": str(invoice.id), "number": invoice.number, "amount": decimal_text(amount), "currency": invoice.currency,
    }  # fmt: skip
    outbox_write(organisation_id=invoice.organisation_id, topic=TOPICS[kind], payload=said, now=now)
    return True


@transaction.atomic
def refund_sync(*, refund_id: str, client: stripe.StripeClient, now: datetime) -> bool:
    """Record and post a refund that went out; False when it is known, not through, or of money that is not ours.

    Raises gateway.Uncertain.
    """
    refund = called(lambda: client.v1.refunds.retrieve(refund_id))
    push = _push_of_intent(str(refund.payment_intent), client=client, now=now)
    if push is None or refund.status != "succeeded":
        return False
    return _move(push.invoice, FactKind.REFUNDED, refund_id, refund.amount, AccountKind.REFUND, AccountKind.BANK, now)


@transaction.atomic
def dispute_sync(*, dispute_id: str, client: stripe.StripeClient, now: datetime) -> None:
    """Record and post a dispute: withdrawn while it is open, then back, or lost. Raises gateway.Uncertain.

    A bank's inquiry (status warning_*) moves no money and is left alone.
    """
    dispute = called(lambda: client.v1.disputes.retrieve(dispute_id))
    push = _push_of_intent(str(dispute.payment_intent), client=client, now=now)
    if push is None or dispute.status not in {"needs_response", "under_review", "won", "lost"}:
        return
    invoice, amount = push.invoice, dispute.amount
    _move(invoice, FactKind.DISPUTED, dispute_id, amount, AccountKind.DISPUTED, AccountKind.BANK, now)
    if dispute.status == "won":
        _move(invoice, FactKind.DISPUTE_WON, dispute_id, amount, AccountKind.BANK, AccountKind.DISPUTED, now)
    elif dispute.status == "lost":
        _move(invoice, FactKind.DISPUTE_LOST, dispute_id, amount, AccountKind.BAD_DEBT, AccountKind.DISPUTED, now)
