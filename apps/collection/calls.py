"""Records every call that changes something at Stripe before the call is made, and stores the outcome afterwards.

A call is open until its outcome is known. While a call is open, the amount of its invoice must not change
(`services.settling.change_lock`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import stripe
from django.db import transaction

from apps.accounts.failpoints import failpoint
from apps.accounts.models import Organisation
from apps.collection.gateway import KeyBroken, OutcomeUnknown
from apps.collection.lookup import effect_find
from apps.collection.models import CallOutcome, StripeCall, StripeCustomer, StripePush
from apps.collection.operations import Operation, operation_run
from apps.collection.pull import invoice_sync
from apps.invoicing.models import Invoice
from apps.invoicing.services.settling import invoice_lock

KEY_TRUST = timedelta(hours=23)  # Stripe forgets a key after 24 hours: afterwards the effect is looked up
NOT_REPEATED = frozenset({"invoice.delete"})  # keys exist for POST only, and a deletion can be looked up


class InvoiceChanged(Exception):
    """Raised if a change to the invoice in our database makes the operation unnecessary."""


@dataclass(frozen=True)
class Recorder:
    """Runs and records the operations for one invoice.

    An operation runs only if `is_due` returns True for the invoice.
    """

    client: stripe.StripeClient
    invoice_id: UUID
    now: datetime
    is_due: Callable[[Invoice], bool] = lambda _: True

    def __call__(self, act: Operation) -> Any:
        with transaction.atomic(durable=True):
            invoice = invoice_lock(self.invoice_id)  # the lock that services use, so they see this call
            if not self.is_due(invoice):
                raise InvoiceChanged(f"invoice {invoice.number} has changed")
            call = _call_open(act, organisation=invoice.organisation, invoice=invoice, now=self.now)
        return _call_run(call, client=self.client, now=self.now)

    def key(self, step: str) -> str:
        """Return a new idempotency key for a step."""
        return key_of(step)


def key_of(step: str) -> str:
    """Return the next idempotency key of a repeatable step."""
    return f"{step}:{StripeCall.objects.filter(key__startswith=f'{step}:').count() + 1}"


def _call_open(act: Operation, *, organisation: Organisation, invoice: Invoice | None, now: datetime) -> StripeCall:
    call, is_new = StripeCall.objects.get_or_create(
        key=act.key,
        defaults={
            "organisation": organisation,
            "invoice": invoice,
            "operation": act.operation,
            "target": act.target,
            "parameters": act.given,
            "made_at": now,
        },
    )
    if not is_new:
        raise KeyBroken(f"the key {act.key} was used before")
    return call


def _call_run(call: StripeCall, *, client: stripe.StripeClient, now: datetime) -> Any:
    try:
        answer = operation_run(client, Operation(call.operation, call.key, call.parameters, call.target))
    except KeyBroken as outage:
        StripeCall.objects.filter(pk=call.pk).update(broken_at=now, error=str(outage)[:400])
        raise
    except OutcomeUnknown as outage:
        StripeCall.objects.filter(pk=call.pk).update(error=str(outage)[:400])
        raise
    except (stripe.AuthenticationError, stripe.PermissionError) as refusal:
        # The refusal says nothing about an earlier attempt with an API key that was valid then.
        StripeCall.objects.filter(pk=call.pk).update(error=str(refusal)[:400])
        raise OutcomeUnknown(f"Stripe refuses the API key: {refusal}") from refusal
    except stripe.StripeError as refusal:
        call_end(call, outcome=CallOutcome.REFUSED, client=client, now=now, error=str(refusal))
        raise
    failpoint("stripe.acted")
    call_end(call, outcome=CallOutcome.ACTED, object_id=str(answer.id), client=client, now=now)
    return answer


def call_end(
    call: StripeCall,
    *,
    outcome: CallOutcome,
    client: stripe.StripeClient,
    now: datetime,
    object_id: str = "",
    error: str = "",
) -> None:
    """Store the outcome of a call and its consequences.

    Raises gateway.OutcomeUnknown if the payment of a charge cannot be fetched.
    """
    if call.operation == "invoice.pay":
        invoice_sync(stripe_id=call.target, client=client, now=now)
    with transaction.atomic():
        call.settled_at, call.outcome, call.object_id, call.error = now, outcome, object_id, error[:400]
        call.save(update_fields=["settled_at", "outcome", "object_id", "error"])
        if outcome != CallOutcome.ACTED:
            return
        if call.operation in {"invoice.create", "invoice.delete"}:
            name = object_id if call.operation == "invoice.create" else ""
            StripePush.objects.filter(pk=call.invoice_id).update(stripe_id=name)
        elif call.operation == "customer.create":
            StripeCustomer.objects.get_or_create(
                organisation=call.organisation, defaults={"customer_id": object_id, "created_at": now}
            )


def call_settle(call: StripeCall, *, client: stripe.StripeClient, now: datetime) -> None:
    """Find out and store the outcome of an open call. Raises gateway.OutcomeUnknown."""
    is_trusted = call.broken_at is None and now - call.made_at < KEY_TRUST and call.operation not in NOT_REPEATED
    if is_trusted:
        try:
            _call_run(call, client=client, now=now)
        except KeyBroken:
            pass  # it failed during execution and has ended: look up its effect
        except stripe.StripeError:
            return  # a refusal is an answer
        else:
            return
    found = effect_find(call, client)
    outcome = CallOutcome.NOT_ACTED if found is None else CallOutcome.ACTED
    call_end(call, outcome=outcome, object_id=found or "", client=client, now=now)


def calls_settle(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> None:
    """Find out and store the outcomes of the invoice's open calls, oldest first. Raises gateway.OutcomeUnknown."""
    for call in StripeCall.objects.filter(invoice=invoice_id, settled_at=None).order_by("id"):
        call_settle(call, client=client, now=now)


@transaction.atomic
def customer_call_open(*, organisation: Organisation, given: dict[str, Any], now: datetime) -> StripeCall | None:
    """Return the open call that creates the organisation's customer at Stripe; record a new call if there is none.

    Return None if the customer already exists.
    """
    locked = Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if StripeCustomer.objects.filter(organisation=locked).exists():
        return None
    waiting = StripeCall.objects.filter(organisation=locked, operation="customer.create", settled_at=None).first()
    step = f"organisation:{locked.id}:customer"
    return waiting or _call_open(
        Operation("customer.create", key_of(step), given), organisation=locked, invoice=None, now=now
    )
