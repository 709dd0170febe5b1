"""Our sums beside Stripe's: what was paid, given back, disputed and lost, and what is still open. None differ, or it is said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import stripe
import structlog

from apps.billing.models import FactKind, Invoice, PushState, StripeCheck, StripeFact, StripePush
from apps.billing.stripe.amounts import amount_of
from apps.billing.stripe.events import events_catch_up
from apps.billing.stripe.gateway import called
from apps.pricing.rating import decimal_text, exact_sum

log = structlog.get_logger("stripe")

Amounts = dict[str, tuple[Invoice, Decimal]]  # of each of Stripe's objects: the invoice that it is about, and how much
WITHDRAWN = {"needs_response", "under_review", "won", "lost"}


@dataclass(frozen=True)
class Row:
    """One kind of money in one currency: how many and how much here and there."""

    what: str
    currency: str
    our_count: int
    our_sum: str
    their_count: int
    their_sum: str


@dataclass
class StripeReconciliation:
    """The comparison; `differences` are sentences that name the object, none is the normal answer."""

    rows: list[Row] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def stripe_reconcile(*, client: stripe.StripeClient) -> StripeReconciliation:
    """Compare all that was brought to Stripe. Catch up on events before, or what is new there differs.

    Raises gateway.Uncertain.
    """
    found = StripeReconciliation()
    brought = {push.stripe_id: push for push in StripePush.objects.exclude(stripe_id="").select_related("invoice")}
    there = {one.id: one for one in _all(client.v1.invoices, {"limit": 100}) if one.id in brought}
    payments = _payments(client, brought)
    disputes = _all(client.v1.disputes, {"limit": 100})
    refunds = _returned(_all(client.v1.refunds, {"limit": 100}), payments, {"succeeded"})
    _compare(found, "open", _open_here(brought), _open_there(there, brought))
    _compare(found, "paid", _facts(FactKind.PAID), payments)
    _compare(found, "refunded", _facts(FactKind.REFUNDED, less=FactKind.REFUND_FAILED), refunds)
    _compare(found, "disputed", _facts(FactKind.DISPUTED), _returned(disputes, payments, WITHDRAWN))
    _compare(found, "lost", _facts(FactKind.DISPUTE_LOST), _returned(disputes, payments, {"lost"}))
    stopped = StripePush.objects.filter(state=PushState.MISMATCH).select_related("invoice")
    found.differences += [f"invoice {push.invoice.number} is not brought: {push.error}" for push in stopped]
    return found


def check_run(*, client: stripe.StripeClient, now: datetime) -> StripeCheck:
    """Catch up, compare, keep what was found; a difference is an alarm in the log. Raises gateway.Uncertain."""
    events_catch_up(client=client, now=now)
    found = stripe_reconcile(client=client)
    if found.differences:
        log.error("stripe.differs", differences=found.differences[:20])
    return StripeCheck.objects.create(at=now, rows=[asdict(row) for row in found.rows], differences=found.differences)


def _all(service: Any, given: dict[str, Any]) -> list[Any]:
    return called(lambda: list(service.list(given).auto_paging_iter()))


def _payments(client: stripe.StripeClient, brought: dict[str, StripePush]) -> Amounts:
    listed = _all(client.v1.invoice_payments, {"status": "paid", "limit": 100})
    return {
        str(one.payment.payment_intent): (
            invoice := brought[str(one.invoice)].invoice,
            amount_of(int(one.amount_paid or 0), currency=invoice.currency),
        )
        for one in listed
        if one.payment.payment_intent and str(one.invoice) in brought
    }


def _returned(listed: Iterable[Any], payments: Amounts, states: set[str]) -> Amounts:
    """Refunds or disputes in one of `states`, of payments that are ours."""
    found: Amounts = {}
    for one in listed:
        known = payments.get(str(one.payment_intent))
        if known is not None and one.status in states:
            found[one.id] = known[0], amount_of(one.amount, currency=known[0].currency)
    return found


def _facts(kind: FactKind, *, less: FactKind | None = None) -> Amounts:
    undone = set(StripeFact.objects.filter(kind=less).values_list("reference", flat=True)) if less else set()
    rows = StripeFact.objects.filter(kind=kind).exclude(reference__in=undone).select_related("invoice")
    return {row.reference: (row.invoice, row.amount) for row in rows}


def _open_here(brought: dict[str, StripePush]) -> Amounts:
    """What waits for money here; what is in nobody's hands there any more (void, given up) is not expected there."""
    return {name: (push.invoice, push.invoice.open) for name, push in brought.items() if push.invoice.open}


def _open_there(there: dict[str, Any], brought: dict[str, StripePush]) -> Amounts:
    return {
        name: (invoice := brought[name].invoice, amount_of(one.amount_remaining, currency=invoice.currency))
        for name, one in there.items()
        if one.status == "open" and one.amount_remaining
    }


def _compare(found: StripeReconciliation, what: str, ours: Amounts, theirs: Amounts) -> None:
    """Count and sum by currency, and name each object in which the two differ."""
    groups: dict[str, tuple[list[Decimal], list[Decimal]]] = defaultdict(lambda: ([], []))
    for side, amounts in enumerate((ours, theirs)):
        for invoice, amount in amounts.values():
            groups[invoice.currency][side].append(amount)
    for currency, (here, there) in sorted(groups.items()):
        found.rows.append(
            Row(what, currency, len(here), decimal_text(exact_sum(here)), len(there), decimal_text(exact_sum(there)))
        )
    for name in sorted({*ours, *theirs}):
        sides = [amounts[name][1] if name in amounts else None for amounts in (ours, theirs)]
        if sides[0] != sides[1]:
            number = (ours.get(name) or theirs[name])[0].number
            said = [decimal_text(one) if one is not None else "nothing" for one in sides]
            found.differences.append(f"{what}, {name} of invoice {number}: {said[0]} here, {said[1]} at Stripe")
