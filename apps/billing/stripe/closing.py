"""Brings to Stripe what happened to an invoice elsewhere: credit notes, bank transfers, debts that are given up.

It looks at both sides' present state and does what is missing, so that it may be called at any time and as often as wanted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import stripe
import structlog
from django.db import transaction

from apps.billing.models import CreditNote, Invoice, InvoiceState, PushState, StripePush
from apps.billing.stripe.amounts import minor_of
from apps.billing.stripe.gateway import Uncertain, called
from apps.billing.stripe.syncing import invoice_sync

log = structlog.get_logger("stripe")

NOTE, SETTLED = "takt_credit_note", "takt_settled"  # metadata by which what is ours is found again


@transaction.atomic
def invoice_close(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> None:
    """Leave as much to be paid at Stripe as is open here. Raises gateway.Uncertain: then it must be called again."""
    push = StripePush.objects.select_for_update().filter(pk=invoice_id).exclude(stripe_id="").first()
    if push is None or push.state not in {PushState.OPEN, PushState.PAID}:
        return
    invoice_sync(stripe_id=push.stripe_id, client=client, now=now)  # what was paid there is known first
    invoice = Invoice.objects.get(pk=invoice_id)
    found = called(lambda: client.v1.invoices.retrieve(push.stripe_id))
    if found.status not in {"open", "paid"}:
        return
    try:
        if invoice.state != InvoiceState.VOID:
            found = _notes_bring(invoice, found, client, now)
        if found.status == "open":
            _rest_close(invoice, found, client, now)
    except stripe.InvalidRequestError as moved:
        raise Uncertain(f"it moved at Stripe meanwhile: {moved}") from moved
    invoice_sync(stripe_id=push.stripe_id, client=client, now=now)


def closings_tend(*, client: stripe.StripeClient, now: datetime) -> int:
    """Close what is settled here and still asked for at Stripe; returns how many. What fails is left for the next time."""
    late = StripePush.objects.filter(state=PushState.OPEN, invoice__open=0).order_by("version_at")
    done = 0
    for invoice_id in list(late.values_list("pk", flat=True)[:50]):
        try:
            invoice_close(invoice_id=invoice_id, client=client, now=now)
        except Uncertain as outage:
            log.warning("stripe.close_later", invoice=str(invoice_id), reason=str(outage))
        else:
            done += 1
    return done


def _minor(invoice: Invoice, amount: Any) -> int:
    return minor_of(amount, currency=invoice.currency)


def _options(step: str, now: datetime) -> Any:
    """What is there was looked at, so a key must only outlive a lost answer: an hour."""
    return {"idempotency_key": f"{step}:{now:%Y-%m-%dT%H}"}


def _notes_bring(invoice: Invoice, found: stripe.Invoice, client: stripe.StripeClient, now: datetime) -> stripe.Invoice:
    there = called(lambda: list(client.v1.credit_notes.list({"invoice": found.id, "limit": 100}).auto_paging_iter()))
    known = {str(one.metadata[NOTE]) for one in there if one.metadata and NOTE in one.metadata}
    for note in invoice.credit_notes.order_by("issued_at"):
        if note.number not in known:
            _note_bring(invoice, note, found, client, now)
            found = called(lambda: client.v1.invoices.retrieve(found.id))  # noqa: B023 - called at once
    return found


def _note_bring(
    invoice: Invoice, note: CreditNote, found: stripe.Invoice, client: stripe.StripeClient, now: datetime
) -> None:
    """Less is left to pay; what was paid already is the customer's balance here, so Stripe is told it went elsewhere."""
    total = _minor(invoice, note.total)
    before = min(total, found.amount_remaining)
    after = min(total - before, found.amount_paid - found.post_payment_credit_notes_amount)
    if before + after <= 0:
        return
    given: Any = {
        "invoice": found.id, "amount": before + after, "memo": f"Credit note {note.number}: {note.reason}"[:500],
        "metadata": {NOTE: note.number},
    }  # fmt: skip
    if after:
        given["out_of_band_amount"] = after
    called(lambda: client.v1.credit_notes.create(given, _options(f"credit-note:{note.id}", now)))


def _rest_close(invoice: Invoice, found: stripe.Invoice, client: stripe.StripeClient, now: datetime) -> None:
    api, options = client.v1.invoices, _options(f"invoice:{invoice.id}:close", now)
    if invoice.state == InvoiceState.VOID:
        called(lambda: api.void_invoice(found.id, {}, options))
    elif invoice.state == InvoiceState.WRITTEN_OFF:
        called(lambda: api.mark_uncollectible(found.id, {}, options))
    elif invoice.open == 0:
        called(lambda: api.pay(found.id, {"paid_out_of_band": True}, options))
    else:
        elsewhere = found.amount_remaining - _minor(invoice, invoice.open)
        if elsewhere > 0:
            _part_close(found, elsewhere, client, now)


def _part_close(found: stripe.Invoice, amount: int, client: stripe.StripeClient, now: datetime) -> None:
    """A part came by bank: Stripe knows no such thing for an open invoice, but takes a note of as much."""
    given: Any = {
        "invoice": found.id, "amount": amount, "memo": "Received by bank transfer",
        "metadata": {SETTLED: str(found.amount_remaining - amount)},
    }  # fmt: skip
    called(lambda: client.v1.credit_notes.create(given, _options(f"settled:{found.id}:{found.amount_remaining}", now)))
