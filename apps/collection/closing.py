"""Tells Stripe what happened to an invoice here: credit notes, bank transfers, debts that are written off, invoices void.

It looks at both sides' present state and does what is missing, so that it may be called at any time and as often as wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import stripe
from django.db.models import F, Q

from apps.collection.acting import Act
from apps.collection.amounts import minor_of
from apps.collection.calls import Recorder, Superseded, call_settle, calls_settle
from apps.collection.gateway import Uncertain, called
from apps.collection.looking import retrieved
from apps.collection.models import PushState, StripeCall, StripeCustomer, StripePush
from apps.collection.pushing import invoice_find, named
from apps.collection.syncing import invoice_sync
from apps.collection.turns import in_turn, turn_of
from apps.invoicing.models import CreditNote, Invoice, InvoiceState

NOTE, SETTLED = "takt_credit_note", "takt_settled"  # metadata by which what is ours is found again
PAUSE = timedelta(minutes=10)  # after a failure that is no outage
UNDER_WAY = (PushState.WAITING, PushState.MISMATCH)


def invoice_close(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> bool:
    """Leave as much to be paid at Stripe as is open here. Raises gateway.Uncertain: then it must be called again."""
    with turn_of(invoice_id) as is_ours:
        push = StripePush.objects.select_related("invoice").filter(pk=invoice_id).first()
        if push is None:
            return False
        if not is_ours:
            raise Uncertain("another worker talks to Stripe about it")
        StripePush.objects.filter(pk=invoice_id).update(tried_at=now)
        try:
            calls_settle(
                invoice_id=push.pk, client=client, now=now
            )  # an event may have said before what one of them did
            push.refresh_from_db()
            if push.state not in {PushState.VOID, PushState.DROPPED}:
                _tell(push, client, now)
        except Superseded as changed:
            raise Uncertain(str(changed)) from changed
        except Uncertain:
            raise
        except Exception as error:
            StripePush.objects.filter(pk=invoice_id).update(tell_at=now + PAUSE, error=f"{error}"[:400])
            raise
        StripePush.objects.filter(pk=invoice_id, tell_at=push.tell_at).update(tell_at=None)
        return True


def closings_tend(*, client: stripe.StripeClient, now: datetime) -> int:
    """Tell Stripe of every invoice that changed here, and of those that are settled here and not there; settle every call
    that has no answer; returns how many invoices. What fails is left for the next time.

    A call may be left though nobody waits for it: the invoice for which a customer was made is paid by transfer, or an event
    said before the call's answer that the invoice is void.
    """
    in_turn(
        list(StripeCall.objects.filter(invoice=None, settled_at=None).order_by("id")),
        lambda call: call_settle(call, client=client, now=now),
    )
    is_ended = Q(tell_at=None, invoice__open=0, state__in=[PushState.OPEN, *UNDER_WAY])
    is_unknown = Q(pk__in=StripeCall.objects.filter(settled_at=None).exclude(invoice=None).values("invoice"))
    late = StripePush.objects.filter(Q(tell_at__lte=now) | is_ended | is_unknown)
    ids = late.order_by(F("tried_at").asc(nulls_first=True), "version_at").values_list("pk", flat=True)
    return in_turn(list(ids), lambda name: invoice_close(invoice_id=name, client=client, now=now))


def invoice_there(push: StripePush, client: stripe.StripeClient) -> stripe.Invoice | None:
    """What Stripe has of a push, by the id that is known or in the customer's list; None where it has nothing."""
    if push.stripe_id:
        found = retrieved(client, push.stripe_id)
        if found is not None and not getattr(found, "deleted", False):
            return found
    customer = StripeCustomer.objects.filter(organisation=push.invoice.organisation_id).first()
    if customer is None:
        return None
    return invoice_find(client, customer=customer.customer_id, invoice_id=str(push.pk))


def _tell(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    found, is_ended = invoice_there(push, client), not push.invoice.open
    if found is None or found.status == "draft":
        if is_ended and push.state in UNDER_WAY:
            _drop(push, found, client, now)
        return
    if push.stripe_id != found.id:
        StripePush.objects.filter(pk=push.pk).update(stripe_id=found.id)
    if push.state not in UNDER_WAY or is_ended:  # what still waits is equalised when it is brought
        equalise(push, client, now)


def _drop(push: StripePush, draft: stripe.Invoice | None, client: stripe.StripeClient, now: datetime) -> None:
    """Nothing is to be collected any more, and nothing was made final."""
    record = Recorder(client, push.pk, now)
    if draft is not None:
        record(Act("invoice.delete", record.key(f"invoice:{push.pk}:drop"), {}, draft.id))
    StripePush.objects.filter(pk=push.pk).update(state=PushState.DROPPED, stripe_id="", error="")


def equalise(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    """Leave as much to be paid of a final invoice as is open here. The caller has the turn, and settled every call. Raises
    gateway.Uncertain."""
    push.refresh_from_db()
    invoice_sync(stripe_id=push.stripe_id, client=client, now=now)  # what was paid there is known first
    invoice = Invoice.objects.get(pk=push.pk)
    found = called(lambda: client.v1.invoices.retrieve(push.stripe_id))
    record = Recorder(client, push.pk, now, _unchanged(invoice))
    try:
        if invoice.state != InvoiceState.VOID and found.status in {"open", "paid"}:
            found = _notes_bring(push, invoice, found, record)
        if found.status in {"open", "uncollectible"}:
            _rest_close(invoice, found, record)
    except stripe.InvalidRequestError as moved:
        raise Uncertain(f"it moved at Stripe meanwhile: {moved}") from moved
    invoice_sync(stripe_id=push.stripe_id, client=client, now=now)


def _unchanged(invoice: Invoice) -> Callable[[Invoice], bool]:
    return lambda current: (current.open, current.state) == (invoice.open, invoice.state)


def _minor(invoice: Invoice, amount: Any) -> int:
    return minor_of(amount, currency=invoice.currency)


def _notes_bring(push: StripePush, invoice: Invoice, found: stripe.Invoice, record: Recorder) -> stripe.Invoice:
    """Those that came after the invoice was made final there; what was credited before was never asked for."""
    api = record.client.v1
    there = called(lambda: list(api.credit_notes.list({"invoice": found.id, "limit": 100}).auto_paging_iter()))
    known = {named(one, NOTE) for one in there} | set(push.included)
    for note in invoice.credit_notes.order_by("issued_at", "number"):
        if note.number not in known:
            _note_bring(invoice, note, found, record)
            found = called(lambda: api.invoices.retrieve(found.id))  # noqa: B023 - called at once
    return found


def _note_bring(invoice: Invoice, note: CreditNote, found: stripe.Invoice, record: Recorder) -> None:
    """Less is left to pay; what was paid already is the customer's balance here, so Stripe is told it went elsewhere."""
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
    record(Act("note.create", record.key(f"credit-note:{note.id}"), given))


def _rest_close(invoice: Invoice, found: stripe.Invoice, record: Recorder) -> None:
    step, is_open = f"invoice:{invoice.id}:close", found.status == "open"
    if invoice.state == InvoiceState.VOID:
        record(Act("invoice.void", record.key(step), {}, found.id))
    elif invoice.state == InvoiceState.WRITTEN_OFF:
        if is_open:
            record(Act("invoice.uncollectible", record.key(step), {}, found.id))
    elif invoice.open == 0:
        record(Act("invoice.pay", record.key(step), {"paid_out_of_band": True}, found.id))
    elif is_open:
        elsewhere = found.amount_remaining - _minor(invoice, invoice.open)
        if elsewhere > 0:
            _part_close(found, elsewhere, record)


def _part_close(found: stripe.Invoice, amount: int, record: Recorder) -> None:
    """A part came by bank: Stripe knows no such thing for an open invoice, but takes a note of as much."""
    left = found.amount_remaining - amount
    given: dict[str, Any] = {
        "invoice": found.id,
        "amount": amount,
        "memo": "Received by bank transfer",
        "metadata": {SETTLED: str(left)},
    }
    record(Act("note.create", record.key(f"settled:{found.id}"), given))
