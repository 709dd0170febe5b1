"""Compares the objects at Stripe with the ledger one by one, and names every difference."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

import stripe
import structlog

from apps.collection.amounts import amount_of
from apps.collection.balances import (
    Amount,
    Amounts,
    LedgerAmounts,
    StripeAmounts,
    by_currency,
    ledger_invoices,
    ledger_open,
    without,
)
from apps.collection.events import events_catch_up
from apps.collection.models import PushState, StripeCall, StripeCheck, StripeCustomer, StripeEvent, StripePush
from apps.collection.push_changes import NOTE, SETTLED
from apps.collection.push_steps import metadata_value
from apps.invoicing.models import CreditNote
from apps.pricing.rating import decimal_text, exact_sum

OVERDUE = timedelta(hours=1)  # a call or event that waits longer counts as a difference

log = structlog.get_logger("stripe")


@dataclass(frozen=True)
class Row:
    """The count and sum of the amounts of one kind in one currency, in the ledger and at Stripe."""

    what: str
    currency: str
    our_count: int
    our_sum: str
    their_count: int
    their_sum: str


@dataclass
class StripeReconciliation:
    """The result of a comparison. Each sentence in `differences` names an object."""

    rows: list[Row] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def stripe_reconcile(*, client: stripe.StripeClient) -> StripeReconciliation:
    """Compare all our objects at Stripe with the ledger. Raises gateway.OutcomeUnknown.

    The caller should catch up on events first.
    """
    found, books, theirs = StripeReconciliation(), LedgerAmounts(), StripeAmounts(client)
    invoices, balance = theirs.final(), theirs.balance()
    known = {push.stripe_id for push in StripePush.objects.filter(ordered=None).exclude(stripe_id="")}
    _compare(found, "invoices", ledger_invoices(), without(invoices, known))
    _compare(found, "open", ledger_open(), theirs.open())
    _compare(found, "paid", books.paid(), theirs.paid())
    _compare(found, "charged", books.paid(), theirs.charged())
    _compare(found, "refunded", books.refunded(), theirs.refunded())
    _compare(found, "disputed", books.disputed(), theirs.disputed())
    _compare(found, "lost", books.lost(), theirs.disputed({"lost"}))
    _compare(found, "credit notes", *_notes(theirs))
    _compare(found, "balance", without(books.balance(), balance[1]), balance[0])
    found.differences += [*_customers(theirs), *_drafts(theirs)]
    stopped = StripePush.objects.filter(state=PushState.MISMATCH).select_related("invoice")
    found.differences += [f"invoice {push.invoice.number} is not synced: {push.error}" for push in stopped]
    return found


def check_run(*, client: stripe.StripeClient, now: datetime) -> StripeCheck:
    """Catch up on events, compare Stripe with the ledger, and store the result.

    Raises gateway.OutcomeUnknown.
    """
    events_catch_up(client=client, now=now)
    found = stripe_reconcile(client=client)
    found.differences += _overdue(now)
    if found.differences:
        log.error("stripe.differs", differences=found.differences[:20])
    return StripeCheck.objects.create(at=now, rows=[asdict(row) for row in found.rows], differences=found.differences)


def _notes(theirs: StripeAmounts) -> tuple[Amounts, Amounts]:
    # Notes older than our records of calls are recognised by their metadata and left out.
    here: Amounts = {}
    for call in StripeCall.objects.filter(operation="note.create").exclude(object_id="").select_related("invoice"):
        if call.invoice is not None:
            amount = amount_of(call.parameters["amount"], currency=call.invoice.currency)
            here[call.object_id] = Amount(f"invoice {call.invoice.number}", call.invoice.currency, amount)
    there: Amounts = {}
    noted = {str(metadata_value(one, NOTE)) for one in theirs.credit_notes() if one.id in here}
    older = set(CreditNote.objects.values_list("number", flat=True)) - noted
    first = StripeCall.objects.order_by("made_at").values_list("made_at", flat=True).first()
    for one in theirs.credit_notes():
        is_older = first is None or one.created < first.timestamp()
        number = metadata_value(one, NOTE)
        if one.id not in here and is_older and (number in older or metadata_value(one, SETTLED)):
            older.discard(str(number))
            continue
        there[one.id] = Amount(theirs.about(str(one.invoice)), *theirs.amount(one.amount, one.currency))
    return here, there


def _customers(theirs: StripeAmounts) -> list[str]:
    known = dict(StripeCustomer.objects.values_list("customer_id", "organisation__name"))
    found = [
        f"customers, {name}: at Stripe but unknown here" for name in sorted(theirs.customers.keys() - known.keys())
    ]
    gone = sorted(known.keys() - theirs.customers.keys())
    return found + [f"customers, {name} of {known[name]}: known here but not at Stripe" for name in gone]


def _drafts(theirs: StripeAmounts) -> list[str]:
    wanted = {PushState.WAITING, PushState.MISMATCH}
    return [
        f"drafts, {name}: at Stripe but not to be finalised here"
        for name, one in sorted(theirs.invoices.items())
        if one.status == "draft" and (name not in theirs.pushes or theirs.pushes[name].state not in wanted)
    ]


def _overdue(now: datetime) -> list[str]:
    calls = StripeCall.objects.filter(settled_at=None, made_at__lt=now - OVERDUE).select_related("invoice")
    events = StripeEvent.objects.filter(handled_at=None, received_at__lt=now - OVERDUE).order_by("created")
    found = [
        f"calls, {call.operation} ({call.key}): no answer since {call.made_at:%Y-%m-%d %H:%M} UTC" for call in calls
    ]
    return found + [f"events, {event.pk} ({event.type}): not handled, {event.error}" for event in events]


def _compare(found: StripeReconciliation, what: str, ours: Amounts, theirs: Amounts) -> None:
    here, there = by_currency(ours), by_currency(theirs)
    for currency in sorted({*here, *there}):
        mine, other = here.get(currency, []), there.get(currency, [])
        sums = [decimal_text(exact_sum(one)) for one in (mine, other)]
        found.rows.append(Row(what, currency, len(mine), sums[0], len(other), sums[1]))
    for name in sorted({*ours, *theirs}):
        sides = [amounts.get(name) for amounts in (ours, theirs)]
        values = [None if one is None else (one.currency, one.amount) for one in sides]
        if values[0] != values[1]:
            texts = [decimal_text(one.amount) if one is not None else "nothing" for one in sides]
            about = (theirs.get(name) or ours[name]).about
            found.differences.append(f"{what}, {name} of {about}: {texts[0]} here, {texts[1]} at Stripe")
