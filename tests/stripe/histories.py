"""Random histories of invoices at Stripe: lost answers, deaths, voids, notes, write-offs, transfers, refunds, disputes, and
events late, twice and out of order. What must hold once everything is settled stands in `wrong`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction
from django.test import override_settings

from apps.accounts.problems import Problem
from apps.collection.amounts import minor_of
from apps.collection.cards import customer_sync
from apps.collection.customers import customer_ensure
from apps.collection.events import event_handle, event_keep, events_catch_up
from apps.collection.gateway import OutcomeUnknown
from apps.collection.models import PushState, StripeCall, StripeCustomer, StripeEvent, StripePush
from apps.collection.push import push_due, push_retry
from apps.collection.push_changes import changes_push_due
from apps.collection.reconciliation import check_run
from apps.invoicing.models import Invoice
from apps.invoicing.outbox import handlers_known, outbox_deliver
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import (
    credit_note_issue,
    invoice_issue,
    invoice_mark_paid,
    invoice_void,
    invoice_write_off,
)
from apps.invoicing.services.credit_lines import credit_lines
from apps.ledger.selectors import balances
from apps.sales.models import Contract
from tests.cast import Cast
from tests.sales.market import NOW
from tests.sales.test_contracts import run
from tests.stripe.direct import FATES, Died, direct_client
from tests.stripe.double import customers, invoices, payments
from tests.stripe.double.errors import Refused
from tests.stripe.double.store import Store, Thing

STEPS = 24
QUIET_ROUNDS = 6
CARDS = ("pm_card_visa", "pm_card_visa", "pm_card_visa", "pm_card_createDispute", "pm_card_chargeCustomerFail")
PAUSES = (timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=7), timedelta(hours=1), timedelta(hours=25))
LISTENERS = [one for one in handlers_known() if one.name.startswith("stripe")]
SETTINGS = {"STRIPE_API_KEY": "sk_test_double", "STRIPE_WEBHOOK_SECRET": "whsec_double"}


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside is gone afterwards; transactions inside begin and end as if they were committed."""
    whole = transaction.atomic()
    whole._from_testcase = True  # type: ignore[attr-defined]  # as Django's own test case says it
    with whole:
        yield
        transaction.set_rollback(True)


@dataclass
class History:
    """One history of one customer, by chance alone."""

    cast: Cast
    contract: Contract
    chance: random.Random
    now: datetime = NOW + timedelta(minutes=1)
    store: Store = field(default_factory=Store)
    troubles: float = 0.2  # how often a request meets a fate
    said: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.clock = lambda: datetime.timestamp(self.now)  # the present, not that of the beginning
        self.client = direct_client(self.store, self.fate)

    def fate(self, method: str, path: str) -> str:
        """What becomes of a request; and whether a charge is one that is due, of all that come from us."""
        if method == "POST" and path.endswith("/pay"):
            self._is_due(path.split("/")[3])
        if self.chance.random() >= self.troubles:
            return ""
        kind = self.chance.choice(FATES)
        self.counts[f"fate {kind}"] += 1
        return kind

    def _is_due(self, stripe_id: str) -> None:
        there = self.store.get("invoice", stripe_id)
        ours = Invoice.objects.get(pk=there["metadata"]["takt_invoice"])
        call = StripeCall.objects.filter(target=stripe_id, operation="invoice.pay", settled_at=None).last()
        if call is None:
            self.broken.append(f"{stripe_id} is charged, and no call of it is recorded")
        elif not call.parameters and there["status"] == "open" and not there["attempt_count"]:
            minor = minor_of(ours.open, currency=ours.currency)
            if minor != there["amount_remaining"] or not ours.is_waiting:
                self.broken.append(f"{stripe_id} is charged {there['amount_remaining']}, and {minor} are open")

    def live(self) -> None:
        """Everything that happens."""
        self._act("issue")
        if self.chance.random() < 0.6:
            self._quietly(lambda: push_due(client=self.client, now=self.now), troubles=0.0)
            self._act("card")
        for _ in range(self.chance.randint(STEPS // 2, STEPS)):
            self.now += self.chance.choice(PAUSES)
            self._act(self.chance.choice(ACTS))

    def settle(self) -> None:
        """Stripe answers again; the scheduler's turns until nothing is left to do."""
        self.troubles = 0.0
        for _ in range(QUIET_ROUNDS):
            self.now += timedelta(hours=7)
            outbox_deliver(now=self.now, handlers=LISTENERS)
            push_due(client=self.client, now=self.now)
            events_catch_up(client=self.client, now=self.now)
            changes_push_due(client=self.client, now=self.now)

    def _act(self, name: str) -> None:
        self.counts[name] += 1
        self.said.append(f"{self.now:%d %H:%M} {name}")
        getattr(self, f"do_{name}")()

    def _quietly(self, work: Callable[[], object], *, troubles: float | None = None) -> None:
        """A refusal, an outage and a death are parts of the history."""
        was, self.troubles = self.troubles, self.troubles if troubles is None else troubles
        try:
            work()
        except Problem as refusal:
            self.counts[f"refused {refusal.kind}"] += 1
        except (OutcomeUnknown, Died) as ended:
            self.counts[type(ended).__name__.lower()] += 1
        finally:
            self.troubles = was

    # What we do

    def do_issue(self) -> None:
        """Another invoice, of 5.63 or a multiple, unless there are three."""
        if Invoice.objects.count() < 3:
            run(self.contract, 10**6 * self.chance.randint(1, 3), now=NOW)
            given = {"organisation": self.cast.organisation, "actor": self.cast.billing, "now": self.now}
            self._quietly(lambda: invoice_issue(**given))

    def do_bring(self) -> None:
        """The scheduler brings what waits."""
        self._quietly(lambda: push_due(client=self.client, now=self.now))

    def do_tell(self) -> None:
        """The scheduler tells Stripe what happened here."""
        self._quietly(lambda: outbox_deliver(now=self.now, handlers=LISTENERS))
        self._quietly(lambda: changes_push_due(client=self.client, now=self.now))

    def do_list(self) -> None:
        """The scheduler lists events."""
        self._quietly(lambda: events_catch_up(client=self.client, now=self.now))

    def do_retry(self) -> None:
        """An administrator brings an invoice again."""
        pushes = list(StripePush.objects.order_by("version_at", "invoice__number").values_list("pk", flat=True))
        if pushes:
            name = self.chance.choice(pushes)
            self._quietly(lambda: push_retry(invoice_id=name, client=self.client, now=self.now))

    def _change(self, change: Callable[[Invoice, dict[str, Any]], object]) -> None:
        invoice = self.chance.choice(list(Invoice.objects.order_by("number")))
        given = {"invoice_id": invoice.pk, "actor": self.cast.admin, "now": self.now}
        self._quietly(lambda: change(invoice, given))

    def do_void(self) -> None:
        """An administrator voids an invoice."""
        self._change(lambda _, given: invoice_void(**given, reason="so agreed"))

    def do_write_off(self) -> None:
        """An administrator gives a debt up."""
        self._change(lambda _, given: invoice_write_off(**given, reason="so agreed"))

    def do_note(self) -> None:
        """A credit note over a part, or over all that is left."""

        def issue(invoice: Invoice, given: dict[str, Any]) -> None:
            left = [one for one in credit_lines(invoice) if one.left >= 1]
            whole = not left or self.chance.random() < 0.3
            parts = None if whole else {left[0].number: Decimal(self.chance.randint(1, 100)).scaleb(-2)}
            credit_note_issue(**given, parts=parts, reason="late")

        self._change(issue)

    def do_transfer(self) -> None:
        """Money comes by bank: a part, all, or too much."""

        def paid(invoice: Invoice, given: dict[str, Any]) -> None:
            part = Decimal(self.chance.randint(1, 150)).scaleb(-2)
            amount = self.chance.choice([part, invoice.open or part, invoice.due + part])
            reference = f"transfer {len(self.said)}"
            invoice_mark_paid(**given, amount=amount, reference=reference)

        self._change(paid)

    # What customers, banks and people at Stripe do

    def customer_with_card(self) -> None:
        """A customer who gave a good card before anything was brought."""
        customer = customer_ensure(client=self.client, organisation=self.cast.organisation, now=self.now)
        method = customers.card_attach(self.store, CARDS[0], customer.customer_id)
        chosen = {"invoice_settings": {"default_payment_method": method["id"]}}
        customers.customer_update(self.store, chosen, {"customer": customer.customer_id})
        customer_sync(customer_id=customer.customer_id, client=self.client)

    def do_card(self) -> None:
        """The customer gives a card, which is charged from then on."""
        known = StripeCustomer.objects.filter(organisation=self.cast.organisation).first()
        if known is not None:
            method = customers.card_attach(self.store, self.chance.choice(CARDS), known.customer_id)
            chosen = {"invoice_settings": {"default_payment_method": method["id"]}}
            customers.customer_update(self.store, chosen, {"customer": known.customer_id})

    def do_pay(self) -> None:
        """The customer pays on Stripe's page."""
        waiting = [one for one in self.store.all("invoice") if one["status"] in {"open", "uncollectible"}]
        if waiting:
            card = customers.card_made(self.store, self.chance.choice(CARDS))
            with suppress(Refused):
                invoices.invoice_attempt(self.store, self.chance.choice(waiting), card)

    def _charges(self) -> list[Thing]:
        return [one for one in self.store.all("charge") if one["status"] == "succeeded" and not one["disputed"]]

    def do_refund(self) -> None:
        """Somebody refunds a part of a charge, or all that is left, perhaps out of the balance."""
        found = [one for one in self._charges() if one["amount_captured"] > one["amount_refunded"]]
        if found:
            taken = self.chance.choice(found)
            left = taken["amount_captured"] - taken["amount_refunded"]
            given = {"payment_intent": taken["payment_intent"], "amount": self.chance.choice([left, (left + 1) // 2])}
            purpose = {"metadata": {"takt_purpose": "balance"}} if self.chance.random() < 0.3 else {}
            payments.refund_create(self.store, {**given, **purpose}, {})

    def do_refund_back(self) -> None:
        """A bank sends a refund back."""
        found = [one for one in self.store.all("refund") if one["status"] == "succeeded"]
        if found:
            payments.refund_fail(self.store, self.chance.choice(found))

    def do_dispute(self) -> None:
        """A bank withdraws a charge."""
        found = [one for one in self._charges() if not one["amount_refunded"]]
        if found:
            payments.dispute_open(self.store, self.chance.choice(found))

    def do_decide(self) -> None:
        """A dispute is decided."""
        found = [one for one in self.store.all("dispute") if one["status"] in {"needs_response", "under_review"}]
        if found:
            text = self.chance.choice(["winning_evidence", "losing_evidence"])
            given = {"evidence": {"uncategorized_text": text}, "submit": True}
            payments.dispute_update(self.store, given, {"dispute": self.chance.choice(found)["id"]})

    def do_deliver(self) -> None:
        """Stripe delivers some events: old ones, in any order, some twice."""
        some = self.chance.sample(self.store.events, min(len(self.store.events), 5))
        for event in [*some, *some[:2]]:
            event_keep(dict(event), now=self.now)
            self._quietly(lambda: event_handle(event_id=event["id"], client=self.client, now=self.now))  # noqa: B023


ACTS = tuple(
    name.removeprefix("do_")
    for name, times in {
        "do_issue": 2,
        "do_bring": 5,
        "do_tell": 3,
        "do_list": 2,
        "do_retry": 1,
        "do_void": 2,
        "do_write_off": 2,
        "do_note": 3,
        "do_transfer": 3,
        "do_card": 1,
        "do_pay": 3,
        "do_refund": 2,
        "do_refund_back": 1,
        "do_dispute": 1,
        "do_decide": 1,
        "do_deliver": 3,
    }.items()
    for _ in range(times)
)


def wrong(history: History) -> list[str]:
    """What does not hold once everything is settled; none is what must be."""
    connection.check_constraints()  # what a commit would have checked
    found = [*history.broken, *history.store.unfit]
    found += check_run(client=history.client, now=history.now).differences
    found += reconcile_all(history.cast.organisation).differences
    found += [f"event {one.type} is not handled: {one.error}" for one in StripeEvent.objects.filter(handled_at=None)]
    found += [f"call {one.key} has no answer" for one in StripeCall.objects.filter(settled_at=None)]
    waits = StripePush.objects.filter(state__in=[PushState.WAITING, PushState.MISMATCH])
    found += [f"invoice {push.invoice.number} is {push.state}: {push.error}" for push in waits]
    return found + _paid_twice(history)


def _paid_twice(history: History) -> list[str]:
    """Cards that we charged more than once for an invoice, and money that came and that the accounts do not have."""
    found, by_us = [], Counter[str]()
    for call in StripeCall.objects.filter(operation="invoice.pay", outcome="acted"):
        if not call.parameters:
            by_us[str(call.invoice_id)] += 1
    found += [f"invoice {name} was charged {count} times" for name, count in sorted(by_us.items()) if count > 1]
    books, nothing = balances(history.cast.organisation.pk), Decimal(0)
    asked = sum((one.due - one.open for one in Invoice.objects.exclude(state="void")), nothing)
    credited = sum(
        (note.total for one in Invoice.objects.exclude(state="void") for note in one.credit_notes.all()), nothing
    )

    def of(kind: str) -> Decimal:
        return books.get((kind, "EUR"), nothing)

    has = of("bank") + of("disputed") + of("bad_debt") + of("refund") + of("prepaid")
    if has != asked - credited:
        found.append(f"the accounts have {has}, and invoices less credit notes are settled with {asked - credited}")
    return found


@dataclass(frozen=True)
class Told:
    """How a history ended."""

    wrong: list[str]
    missed: str  # the planted difference that the check did not find
    counts: Counter[str]
    ended: str  # the states and sums in which it ended


def told(cast: Cast, contract: Contract, seed: str) -> Told:
    """Live one history, settle it, look; then plant a difference, and look again. Everything is undone."""
    from tests.stripe.plants import planted

    with override_settings(**SETTINGS), undone():
        history = History(cast, contract, random.Random(seed))
        history.live()
        history.settle()
        found = wrong(history)
        ended = _ended(history)
        name = "" if found else planted(history)
        missed = ""
        if name:
            history.counts[f"planted: {name}"] += 1
            if not check_run(client=history.client, now=history.now).differences:
                missed = name
    return Told([f"{one} ({seed}: {', '.join(history.said)})" for one in found], missed, history.counts, ended)


def _ended(history: History) -> str:
    states = list(Invoice.objects.order_by("number").values_list("number", "state", "open", "dispute"))
    books = sorted((kind, str(amount)) for (kind, _), amount in balances(history.cast.organisation.pk).items())
    there = [(one["object"], one.get("status"), one.get("amount")) for one in history.store.objects.values()]
    return repr((states, books, there, [one["type"] for one in history.store.events]))
