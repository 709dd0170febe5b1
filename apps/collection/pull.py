"""Updates our records to match Stripe. Objects are always fetched from Stripe, because events are not trusted."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

import stripe
import structlog
from django.db import transaction

from apps.accounts.problems import Problem
from apps.collection.amounts import amount_of
from apps.collection.gateway import call_with_retry
from apps.collection.models import PushState, StripePush
from apps.collection.push_steps import INVOICE, metadata_value
from apps.invoicing.models import FactKind, Invoice, StripeFact
from apps.invoicing.services import invoice_payment_take, payment_failed, payment_record

STATES = {
    "open": PushState.OPEN,
    "paid": PushState.PAID,
    "void": PushState.VOID,
    "uncollectible": PushState.UNCOLLECTIBLE,
}

log = structlog.get_logger("stripe")


@transaction.atomic
def invoice_sync(*, stripe_id: str, client: stripe.StripeClient, now: datetime) -> StripePush | None:
    """Update an invoice's state and payments from Stripe. Return None if the invoice is not ours.

    Raises gateway.OutcomeUnknown.
    """
    push = StripePush.objects.select_for_update().filter(stripe_id=stripe_id).first()
    found = call_with_retry(lambda: client.v1.invoices.retrieve(stripe_id))
    if push is None:
        push = _push_adopt(found, now)
        if push is None:
            return None
    if push.stripe_id == found.id:  # a copy made at Stripe does not change our state; its payments become the balance
        _state_update(push, found)
    payments = call_with_retry(
        lambda: client.v1.invoice_payments.list({"invoice": stripe_id, "status": "paid", "limit": 100})
    )
    for payment in payments.data:
        if payment.payment.payment_intent:  # other payments do not move money at Stripe
            _paid(push.invoice, str(payment.payment.payment_intent), int(payment.amount_paid or 0), now=now)
    if found.status == "open" and found.attempt_count:
        _failed(push.invoice, f"{stripe_id}:{found.attempt_count}", now=now)
    return push


def _state_update(push: StripePush, found: stripe.Invoice) -> None:
    state = STATES.get(str(found.status), PushState(push.state))
    if push.state != PushState.WAITING or state != PushState.OPEN:  # a waiting invoice may still have to be charged
        push.state = state
    push.hosted_url = str(found.hosted_invoice_url or "")
    if found.status == "draft" and found.last_finalization_error:
        push.state, push.error = PushState.MISMATCH, str(found.last_finalization_error.message)[:400]
        log.error("stripe.finalization_failed", invoice=push.invoice.number, reason=push.error)
    push.save(update_fields=["state", "hosted_url", "error"])


def _push_adopt(found: stripe.Invoice, now: datetime) -> StripePush | None:
    # The card may have been charged although no id was stored.
    try:
        ours = Invoice.objects.filter(pk=UUID(metadata_value(found, INVOICE) or "")).first()
    except ValueError:
        return None
    if ours is None or found.status == "draft":
        return None
    StripePush.objects.bulk_create([StripePush(invoice=ours, version_at=now)], ignore_conflicts=True)
    push = StripePush.objects.select_for_update().get(pk=ours.pk)
    if not push.stripe_id:
        push.stripe_id, push.tell_at = found.id, now
        push.state = PushState.WAITING if push.state == PushState.DROPPED else push.state
        push.save(update_fields=["stripe_id", "tell_at", "state"])
    return push


def fact_record(invoice: Invoice, kind: FactKind, reference: str, amount: Decimal, now: datetime) -> bool:
    """Record a payment event of an invoice. Return False if the event is already recorded."""
    _, is_new = StripeFact.objects.get_or_create(
        kind=kind, reference=reference, defaults={"invoice": invoice, "amount": amount, "at": now}
    )
    return is_new


def _paid(invoice: Invoice, intent: str, minor: int, *, now: datetime) -> None:
    amount = amount_of(minor, currency=invoice.currency)
    if not fact_record(invoice, FactKind.PAID, intent, amount, now):
        return
    try:
        with transaction.atomic():
            invoice_payment_take(invoice_id=invoice.id, amount=amount, reference=intent, actor=None, now=now)
    except Problem as refusal:
        if refusal.kind != "invoice-settled":
            raise
        # It was settled in another way meanwhile: the payment becomes the customer's balance.
        payment_record(
            organisation=invoice.organisation,
            amount=amount,
            currency=invoice.currency,
            provider="stripe",
            reference=intent,
            idempotency_key=f"stripe:{intent}",
            actor=None,
            now=now,
        )


def _failed(invoice: Invoice, reference: str, *, now: datetime) -> None:
    if fact_record(invoice, FactKind.FAILED, reference, Decimal(0), now):
        payment_failed(invoice_id=invoice.id, reason="The card was declined.", now=now)


def intent_sync(*, intent: str | None, client: stripe.StripeClient, now: datetime) -> StripePush | None:
    """Update the invoice that a payment intent paid. Return None if the invoice is not ours.

    Raises gateway.OutcomeUnknown.
    """
    if not intent:
        return None
    given = {"payment": {"type": "payment_intent", "payment_intent": intent}}
    payments = call_with_retry(lambda: client.v1.invoice_payments.list(given))  # type: ignore[arg-type]
    return next((invoice_sync(stripe_id=str(one.invoice), client=client, now=now) for one in payments.data), None)
