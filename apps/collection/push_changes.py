"""Pushes later changes to an invoice to Stripe: credit notes, bank transfers, write-offs and voids.

Each run makes only the missing changes and is therefore safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import stripe
from django.db.models import F, Q

from apps.collection.amounts import minor_of
from apps.collection.calls import InvoiceChanged, Recorder, call_settle, calls_settle
from apps.collection.gateway import OutcomeUnknown, call_with_retry
from apps.collection.locking import invoice_lock_try, run_each
from apps.collection.lookup import invoice_retrieve
from apps.collection.models import PushState, StripeCall, StripeCustomer, StripePush
from apps.collection.operations import Operation
from apps.collection.pull import invoice_sync
from apps.collection.push_steps import invoice_find, metadata_value
from apps.invoicing.models import CreditNote, Invoice, InvoiceState

NOTE, SETTLED = "takt_credit_note", "takt_settled"  # metadata keys that identify our credit notes
PAUSE = timedelta(minutes=10)  # after a failure other than an outage
UNDER_WAY = (PushState.WAITING, PushState.MISMATCH)


def changes_push(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> bool:
    """Align the open amount at Stripe with ours.

    If gateway.OutcomeUnknown is raised, the caller must repeat the call.
    """
    with invoice_lock_try(invoice_id) as is_ours:
        push = StripePush.objects.select_related("invoice").filter(pk=invoice_id).first()
        if push is None:
            return False
        if not is_ours:
            raise OutcomeUnknown("another worker is updating this invoice at Stripe")
        StripePush.objects.filter(pk=invoice_id).update(tried_at=now)
        try:
            calls_settle(invoice_id=push.pk, client=client, now=now)  # their effect may be known from an event already
            push.refresh_from_db()
            if push.state not in {PushState.VOID, PushState.DROPPED}:
                _changes_apply(push, client, now)
        except InvoiceChanged as changed:
            raise OutcomeUnknown(str(changed)) from changed
        except OutcomeUnknown:
            raise
        except Exception as error:
            StripePush.objects.filter(pk=invoice_id).update(tell_at=now + PAUSE, error=f"{error}"[:400])
            raise
        StripePush.objects.filter(pk=invoice_id, tell_at=push.tell_at).update(tell_at=None)
        return True


def changes_push_due(*, client: stripe.StripeClient, now: datetime) -> int:
    """Push every invoice with unpushed changes or open calls, and return the number of pushed invoices.

    Failures are retried by the next run.
    """
    run_each(
        list(StripeCall.objects.filter(invoice=None, settled_at=None).order_by("id")),
        lambda call: call_settle(call, client=client, now=now),
    )
    is_ended = Q(tell_at=None, invoice__open=0, state__in=[PushState.OPEN, *UNDER_WAY])
    is_unknown = Q(pk__in=StripeCall.objects.filter(settled_at=None).exclude(invoice=None).values("invoice"))
    late = StripePush.objects.filter(Q(tell_at__lte=now) | is_ended | is_unknown)
    ids = late.order_by(F("tried_at").asc(nulls_first=True), "version_at").values_list("pk", flat=True)
    return run_each(list(ids), lambda name: changes_push(invoice_id=name, client=client, now=now))


def stripe_invoice_find(push: StripePush, client: stripe.StripeClient) -> stripe.Invoice | None:
    """Return the invoice at Stripe; None if there is none."""
    if push.stripe_id:
        found = invoice_retrieve(client, push.stripe_id)
        if found is not None and not getattr(found, "deleted", False):
            return found
    customer = StripeCustomer.objects.filter(organisation=push.invoice.organisation_id).first()
    if customer is None:
        return None
    return invoice_find(client, customer=customer.customer_id, invoice_id=str(push.pk))


def _changes_apply(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    found, is_ended = stripe_invoice_find(push, client), not push.invoice.open
    if found is None or found.status == "draft":
        if is_ended and push.state in UNDER_WAY:
            _drop(push, found, client, now)
        return
    if push.stripe_id != found.id:
        StripePush.objects.filter(pk=push.pk).update(stripe_id=found.id)
    if push.state not in UNDER_WAY or is_ended:  # a waiting invoice is aligned when it is pushed
        remainder_align(push, client, now)


def _drop(push: StripePush, draft: stripe.Invoice | None, client: stripe.StripeClient, now: datetime) -> None:
    record = Recorder(client, push.pk, now)
    if draft is not None:
        record(Operation("invoice.delete", record.key(f"invoice:{push.pk}:drop"), {}, draft.id))
    StripePush.objects.filter(pk=push.pk).update(state=PushState.DROPPED, stripe_id="", error="")


def remainder_align(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    """Align the open amount of a finalised invoice at Stripe with ours.

    The caller must hold the invoice's lock, and the invoice must have no open calls. Raises gateway.OutcomeUnknown.
    """
    push.refresh_from_db()
    invoice_sync(stripe_id=push.stripe_id, client=client, now=now)  # record payments first
    invoice = Invoice.objects.get(pk=push.pk)
    found = call_with_retry(lambda: client.v1.invoices.retrieve(push.stripe_id))
    record = Recorder(client, push.pk, now, _unchanged(invoice))
    try:
        if invoice.state != InvoiceState.VOID and found.status in {"open", "paid"}:
            found = _notes_push(push, invoice, found, record)
        if found.status in {"open", "uncollectible"}:
            _remainder_close(invoice, found, record)
    except stripe.InvalidRequestError as moved:
        raise OutcomeUnknown(f"it changed at Stripe meanwhile: {moved}") from moved
    invoice_sync(stripe_id=push.stripe_id, client=client, now=now)


def _unchanged(invoice: Invoice) -> Callable[[Invoice], bool]:
    return lambda current: (current.open, current.state) == (invoice.open, invoice.state)


def _minor(invoice: Invoice, amount: Any) -> int:
    return minor_of(amount, currency=invoice.currency)


def _notes_push(push: StripePush, invoice: Invoice, found: stripe.Invoice, record: Recorder) -> stripe.Invoice:
    # Earlier credit notes are already deducted from the amount that Stripe was asked to collect.
    api = record.client.v1
    there = call_with_retry(lambda: list(api.credit_notes.list({"invoice": found.id, "limit": 100}).auto_paging_iter()))
    known = {metadata_value(one, NOTE) for one in there} | set(push.included)
    for note in invoice.credit_notes.order_by("issued_at", "number"):
        if note.number not in known:
            _note_push(invoice, note, found, record)
            found = call_with_retry(lambda: api.invoices.retrieve(found.id))  # noqa: B023 - called at once
    return found


def _note_push(invoice: Invoice, note: CreditNote, found: stripe.Invoice, record: Recorder) -> None:
    # The paid part of the note goes to the customer's balance with us, which Stripe records as credited outside
    # Stripe.
    total = _minor(invoice, note.total)
    before = min(total, found.amount_remaining)
    after = min(total - before, found.amount_paid - found.post_payment_credit_notes_amount)
    if before + after <= 0:
        return
    given: dict[str, Any] = {
        "invoice": found.id,
        "amount": before + after,
        "memo": f"Credit note {note.number}: {note.reason}"[:500],
        "metadata": {NOTE: note.number},
    }
    if after:
        given["out_of_band_amount"] = after
    record(Operation("note.create", record.key(f"credit-note:{note.id}"), given))


def _remainder_close(invoice: Invoice, found: stripe.Invoice, record: Recorder) -> None:
    step, is_open = f"invoice:{invoice.id}:close", found.status == "open"
    if invoice.state == InvoiceState.VOID:
        record(Operation("invoice.void", record.key(step), {}, found.id))
    elif invoice.state == InvoiceState.WRITTEN_OFF:
        if is_open:
            record(Operation("invoice.uncollectible", record.key(step), {}, found.id))
    elif invoice.open == 0:
        record(Operation("invoice.pay", record.key(step), {"paid_out_of_band": True}, found.id))
    elif is_open:
        elsewhere = found.amount_remaining - _minor(invoice, invoice.open)
        if elsewhere > 0:
            _part_close(found, elsewhere, record)


def _part_close(found: stripe.Invoice, amount: int, record: Recorder) -> None:
    # Stripe has no partial payments, so a bank transfer is recorded as a credit note.
    left = found.amount_remaining - amount
    given: dict[str, Any] = {
        "invoice": found.id,
        "amount": amount,
        "memo": "Received by bank transfer",
        "metadata": {SETTLED: str(left)},
    }
    record(Operation("note.create", record.key(f"settled:{found.id}"), given))
