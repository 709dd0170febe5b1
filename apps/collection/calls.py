"""Every call that may act is recorded before it is made, and settled: nothing that Stripe did stays unknown.

While a call is open no service changes what is asked by its invoice (`services.settling.change_lock`). It is settled by its
answer; without one by the same key again, which Stripe answers as the first time; and where the key remembers a failure, or
is forgotten after a day, by looking at what Stripe has.
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
from apps.collection.acting import Act, perform
from apps.collection.gateway import Broken, Uncertain
from apps.collection.looking import found_at_stripe
from apps.collection.models import CallOutcome, StripeCall, StripeCustomer, StripePush
from apps.collection.syncing import invoice_sync
from apps.invoicing.models import Invoice
from apps.invoicing.services.settling import invoice_lock

KEY_TRUST = timedelta(hours=23)  # Stripe forgets a key after 24 hours: from then on what is there is looked up
NOT_REPEATED = frozenset({"invoice.delete"})  # keys are for POST; and what is deleted is seen to be gone


class Superseded(Exception):
    """The invoice changed here meanwhile: what was to be done at Stripe is not due any more."""


@dataclass(frozen=True)
class Recorder:
    """Carries acts for an invoice out (it is an `acting.Acting`), as long as `is_due` holds of the invoice."""

    client: stripe.StripeClient
    invoice_id: UUID
    now: datetime
    is_due: Callable[[Invoice], bool] = lambda _: True

    def __call__(self, act: Act) -> Any:
        """Raises Superseded, gateway.Uncertain, or Stripe's refusal."""
        with transaction.atomic(durable=True):
            invoice = invoice_lock(self.invoice_id)  # as services that change the invoice lock it: they see this call
            if not self.is_due(invoice):
                raise Superseded(f"invoice {invoice.number} has changed")
            call = _opened(act, organisation=invoice.organisation, invoice=invoice, now=self.now)
        return _carried_out(call, client=self.client, now=self.now)

    def key(self, step: str) -> str:
        """A key that was never used: the step, and how often it was tried before."""
        return key_of(step)


def key_of(step: str) -> str:
    """The next key of a step that may be repeated for reasons of its own."""
    return f"{step}:{StripeCall.objects.filter(key__startswith=f'{step}:').count() + 1}"


def _opened(act: Act, *, organisation: Organisation, invoice: Invoice | None, now: datetime) -> StripeCall:
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
        raise Broken(f"the key {act.key} was used before")
    return call


def _carried_out(call: StripeCall, *, client: stripe.StripeClient, now: datetime) -> Any:
    try:
        answer = perform(client, Act(call.operation, call.key, call.parameters, call.target))
    except Broken as outage:
        StripeCall.objects.filter(pk=call.pk).update(broken_at=now, error=str(outage)[:400])
        raise
    except Uncertain as outage:
        StripeCall.objects.filter(pk=call.pk).update(error=str(outage)[:400])
        raise
    except (stripe.AuthenticationError, stripe.PermissionError) as refusal:
        # It says nothing of what the same call did earlier, with a key that was in force then.
        StripeCall.objects.filter(pk=call.pk).update(error=str(refusal)[:400])
        raise Uncertain(f"Stripe refuses the API key: {refusal}") from refusal
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
    """Keep what came of a call, with what follows from it at once. A charge is only settled with its payment in the books:
    raises gateway.Uncertain where that could not be asked for."""
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
    """Find out what came of an open call. Raises gateway.Uncertain where Stripe does not say."""
    is_trusted = call.broken_at is None and now - call.made_at < KEY_TRUST and call.operation not in NOT_REPEATED
    if is_trusted:
        try:
            _carried_out(call, client=client, now=now)
        except Broken:
            pass  # it failed while it was carried out, and is over: what it did is there
        except stripe.StripeError:
            return  # a refusal is an answer
        else:
            return
    found = found_at_stripe(call, client)
    outcome = CallOutcome.NOT_ACTED if found is None else CallOutcome.ACTED
    call_end(call, outcome=outcome, object_id=found or "", client=client, now=now)


def calls_settle(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> None:
    """Settle every open call for an invoice, in the order in which they were made. Raises gateway.Uncertain."""
    for call in StripeCall.objects.filter(invoice=invoice_id, settled_at=None).order_by("id"):
        call_settle(call, client=client, now=now)


@transaction.atomic
def customer_call(*, organisation: Organisation, given: dict[str, Any], now: datetime) -> StripeCall | None:
    """The call that makes an organisation's customer: the one that is open, else a new one; None where the customer is
    known."""
    locked = Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if StripeCustomer.objects.filter(organisation=locked).exists():
        return None
    waiting = StripeCall.objects.filter(organisation=locked, operation="customer.create", settled_at=None).first()
    step = f"organisation:{locked.id}:customer"
    return waiting or _opened(Act("customer.create", key_of(step), given), organisation=locked, invoice=None, now=now)
