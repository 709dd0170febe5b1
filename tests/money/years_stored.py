"""Random years through the database by the product's own services, every order of clicks from the same facts.

Two price books of other prices, free operations, minimum and notice of late cancellation, some of two currencies; contracts
sold, used, amended and ended late; credits, some ended by hand, and a commitment. Every run makes new random ids. Each
invoice is verified offline, and the books are reconciled at the end of each run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.accounts.problems import Problem
from apps.cli.verify import verify
from apps.invoicing.exports import invoice_json
from apps.invoicing.models import BillingProfile, CreditNote, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import (
    credit_note_issue,
    grant_create,
    grant_end,
    grants_expire,
    invoice_issue,
    invoice_void,
    invoices_issue_month,
)
from apps.ledger.models import UsageRow
from apps.pricing.models import PriceBook
from apps.pricing.rating import Rating, allowance_of, exact_sum
from apps.pricing.rating.forms import priced_parts
from apps.pricing.selectors import book_of_digest, document_of
from apps.pricing.services import pricebook_publish
from apps.sales.commitments import shortfalls_ended
from apps.sales.models import Contract
from apps.sales.services import QuoteLine, commitment_enter, contract_end, quote_accept, quote_create
from tests.cast import Cast
from tests.money.clicks import Click, clicks_of
from tests.money.years import END, START, TICK, YEAR, Credit, Total, Use, Year, months, total_of
from tests.pricing.rating.books import document
from tests.sales.market import Market, open_market
from tests.sales.test_contracts import run

EXECUTIONS = (1, 400, 9_000, 150_000, 1_234_567)  # 142,046 of the market's program come to 100 tera-operations
VOLUME = 10**8
CURRENCIES = {"EUR": 2, "JPY": 0, "KWD": 3}  # the places of their smallest units
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Act:
    """A fact of the year: `sell`, `use`, `amend`, `close`, `grant`, `take_back`, `promise`; `number` says of what, or how
    much."""

    at: datetime
    what: str
    number: int = 0


@dataclass(frozen=True)
class Plan:
    """The facts of a year before they have ids: acts in the order of time, the two books, the tax."""

    acts: tuple[Act, ...]
    books: tuple[Callable[[dict[str, Any]], object], ...]
    change: datetime
    tax: Decimal


def plan_of(dice: random.Random, uses: int = 10) -> Plan:
    """A year with about so many uses."""
    acts = [Act(START + HOUR, "sell"), *(_act(dice, "use") for _ in range(uses))]
    acts += [
        _act(dice, what)
        for what in ("sell", "amend", "amend", "close", "close", "grant", "grant", "take_back", "promise")
        if dice.random() < 0.5
    ]
    first = datetime.fromisoformat(f"2026-{dice.randrange(2, 12):02}-01T00:00Z")
    change = first + TICK * dice.choice([0, 0, 1_000_000 * 86_400 * 11])
    books = _book(dice, 1, "EUR"), _book(dice, 2, dice.choice(["EUR", "EUR", "JPY", "KWD"]))
    return Plan(tuple(sorted(acts, key=lambda act: act.at)), books, change, Decimal(dice.choice(["0", "0.19"])))


def _act(dice: random.Random, what: str) -> Act:
    at = START + 2 * HOUR + TICK * dice.randrange((YEAR - 3 * HOUR) // TICK)
    if dice.random() < 0.3:  # the last or the first instant of a month
        first = datetime.fromisoformat(f"2026-{dice.randrange(2, 13):02}-01T00:00Z")
        at = first + TICK * dice.choice([-1, 0, 1])
    return Act(at, what, dice.randrange(100))


def _book(dice: random.Random, version: int, code: str) -> Callable[[dict[str, Any]], object]:
    free, least, price = dice.choice(["0", "100", "300"]), dice.choice(["0", "0", "8"]), dice.choice(["0.008", "0.031"])
    notice = dice.choice([0, 60 * 24 * 7, 60 * 24 * 60])

    def change(book: dict[str, Any]) -> None:
        book |= {"version": version, "notice_days": 0, "free_tera_operations": free, "minimum_charge": least}
        book["currency"] = {"code": code, "exponent": CURRENCIES[code]}
        book["prices"]["lpu"]["float32"] = price
        if notice:
            book["classes"]["standard"]["late_cancellation"] = {"notice_minutes": notice, "share": "0.4"}

    return change


@dataclass
class Walk:
    """One run through a year."""

    cast: Cast
    market: Market
    plan: Plan
    dice: random.Random

    def __post_init__(self) -> None:
        pricebook_publish(document=document(self.plan.books[1]), effective_from=self.plan.change, now=START)
        BillingProfile.objects.create(organisation=self.cast.organisation, tax_rate=self.plan.tax)
        self.programs = [self.market.program(self.cast.organisation, self.cast.engineer) for _ in range(2)]
        self.contracts: list[Contract] = []

    def through(self, clicks: Sequence[Click]) -> None:
        """Facts and clicks in the order of time; a fact comes before a click at its instant. Then all is asked for."""
        steps = sorted([(act.at, 0, act) for act in self.plan.acts] + [(one.at, 1, one) for one in clicks], key=_order)
        for at, _, step in steps:
            refused = suppress(Problem) if isinstance(step, Click) else nullcontext()
            with refused, transaction.atomic():
                getattr(self, step.what)(at, step.number)
        grants_expire(now=END)
        with suppress(Problem):
            for _ in range(30):
                invoice_issue(organisation=self.cast.organisation, until=END, actor=None, now=END + HOUR)

    def sell(self, at: datetime, number: int) -> None:
        self._buy(at, number, None)

    def amend(self, at: datetime, number: int) -> None:
        self._buy(at, number, self._one(at, number))

    def use(self, at: datetime, number: int) -> None:
        """A lease of a contract whose time is not over; where there is none, one is bought first."""
        if self._one(at, number) is None:
            self._buy(at, number, None)
        run(self._one(at, number), EXECUTIONS[number % len(EXECUTIONS)], now=at)  # type: ignore[arg-type]

    def _one(self, at: datetime, number: int) -> Contract | None:
        known = [one for one in self.contracts if one.ends_at > at]
        return known[number % len(known)] if known else None

    def _buy(self, at: datetime, number: int, amended: Contract | None) -> None:
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=[QuoteLine(self.programs[number % 2], VOLUME)],
            klass="standard",
            pool=self.market.lpu,
            actor=None,
            now=at,
            window=(at, at + timedelta(days=40)),
            amends=amended,
        )
        contract = quote_accept(quote_id=quote.id, organisation=self.cast.organisation, actor=None, now=at)
        self.contracts = [one for one in self.contracts if one != amended] + [contract]

    def close(self, at: datetime, number: int) -> None:
        """A contract is ended before its time, some of it too late for the notice of its class."""
        contract = self._one(at, number)
        if contract is not None:
            contract_end(contract_id=contract.id, organisation=self.cast.organisation, actor=self.cast.owner, now=at)
            self.contracts.remove(contract)

    def grant(self, at: datetime, number: int) -> None:
        """A credit for ever, for an hour, or to the end of the month or the instant before that."""
        ends = [None, at + HOUR, months()[at.month - 1][1] - TICK, months()[at.month - 1][1]][number % 4]
        grant_create(
            organisation=self.cast.organisation,
            amount=Decimal(number + 1),
            currency=_code_at(at),
            reason="so",
            actor=None,
            expires_at=ends if ends is None or ends > at else at + HOUR,
            idempotency_key=str(at),
            now=at,
        )

    def take_back(self, at: datetime, number: int) -> None:
        """A credit that is not over is ended by hand."""
        open_ = self.cast.organisation.credit_grants.filter(Q(expires_at=None) | Q(expires_at__gt=at), end=None)
        known = list(open_.order_by("granted_at"))
        if known:
            grant_end(grant_id=known[number % len(known)].id, reason="so", actor=None, now=at)

    def promise(self, at: datetime, number: int) -> None:
        commitment_enter(
            organisation=self.cast.organisation,
            kind="month",
            minimum=Decimal(number + 1),
            actor=self.cast.owner,
            now=at,
        )

    def issue(self, at: datetime, _: int) -> None:
        invoice_issue(organisation=self.cast.organisation, actor=None, now=at)

    def month(self, at: datetime, _: int) -> None:
        invoices_issue_month(now=at)

    def sweep(self, at: datetime, _: int) -> None:
        grants_expire(now=at)

    def void(self, at: datetime, number: int) -> None:
        """Undo an invoice; one in four is credited in part instead, one in four as a whole."""
        standing = list(Invoice.objects.exclude(state="void").order_by("sequence"))
        invoice = standing[number % len(standing)] if standing else None
        if invoice is None:
            return
        if number % 4 == 0:
            unit = Decimal(1).scaleb(-invoice.exponent)
            credit_note_issue(invoice_id=invoice.id, parts={1: unit}, reason="so", actor=None, now=at)
        elif number % 4 == 1:
            credit_note_issue(invoice_id=invoice.id, reason="so", actor=None, now=at)
        else:
            invoice_void(invoice_id=invoice.id, reason="so", actor=None, now=at)

    def total(self, code: str) -> Total:
        """What stands in a currency in the end, as the documents say it."""
        standing = list(Invoice.objects.filter(currency=code).exclude(state="void").order_by("sequence"))
        sections = [one for invoice in standing for one in invoice.document["sections"]]
        lines = [one for invoice in standing for one in invoice.document.get("adjustments", [])]
        used = [Decimal(one["usage"]) for one in sections]
        named = {kind: _sum(lines, kind) for kind in ("free-tier", "minimum", "shortfall", "credit")}
        charged = exact_sum([*used, named["free-tier"], named["minimum"], named["shortfall"]])
        return Total(
            charged=Fraction(charged),
            free=-Fraction(named["free-tier"]),
            minimum=Fraction(named["minimum"]),
            credits=-Fraction(named["credit"]),
            payable=Fraction(exact_sum(one.payable for one in standing)),
            tax=Fraction(exact_sum(one.tax for one in standing)),
        )

    def facts(self, code: str) -> Year:
        """The year in a currency as it was recorded, for the independent computation."""
        uses = []
        for row in UsageRow.objects.filter(currency=code):
            rating, book = Rating.from_json(row.rating), book_of_digest(row.rating["book_digest"])
            if rating.unused:  # late cancellation: nothing of it is free
                uses.append(Use(row.created_at, rating.amount, 1, 0))
                continue
            for size, amount in priced_parts(rating):  # what a contract lacks to its minimum has no operations
                uses.append(Use(row.created_at, amount / (size or 1), size or 1, allowance_of(book) if size else 0))
        lacking = shortfalls_ended(self.cast.organisation, currency=code, until=END)
        lacks = tuple((one.end - TICK, one.missing) for one in lacking)
        least = tuple(_least_of(first, last, code) for first, last in months())
        return Year(tuple(uses), self._credits(code), lacks, least, CURRENCIES[code], self.plan.tax)

    def _credits(self, code: str) -> tuple[Credit, ...]:
        """What was granted, and what credit notes gave back of it, which is a credit from the note on."""
        found = []
        for one in self.cast.organisation.credit_grants.filter(currency=code).select_related("end"):
            ended = one.ended.ended_at if one.ended else None
            returned = one.uses.filter(amount__lt=0).exclude(invoice__state="void")
            parts = [(one.granted_at, one.amount), *((use.at, -use.amount) for use in returned)]
            found += [Credit(at, amount, one.expires_at, ended) for at, amount in parts]
        return tuple(found)

    def check(self) -> int:
        """Every invoice verified offline, none below nought, and the books reconciled; how many invoices there are."""
        books = [document_of(book) for book in PriceBook.objects.all()]
        invoices = list(Invoice.objects.order_by("sequence"))
        for invoice in invoices:
            assert verify(json.loads(invoice_json(invoice)), models=[], books=books).checked
            assert min(invoice.net, invoice.payable, invoice.tax) >= 0
        assert reconcile_all(self.cast.organisation).differences == []
        return len(invoices)


def _order(step: tuple[datetime, int, Any]) -> tuple[datetime, int]:
    return step[0], step[1]


def _sum(lines: Sequence[dict[str, Any]], kind: str) -> Decimal:
    return exact_sum(Decimal(one["amount"]) for one in lines if one["kind"] == kind)


def _least_of(first: datetime, last: datetime, code: str) -> Decimal:
    """The minimum charge of the last book in the currency that was in force in the month."""
    books = PriceBook.objects.filter(effective__overlap=(first, last), currency=code)
    book = books.order_by("-version").first()
    return document_of(book).minimum_charge if book else Decimal(0)


def _code_at(at: datetime) -> str:
    """The currency of the book in force."""
    return PriceBook.objects.get(effective__contains=at).currency


@dataclass
class Compared:
    """What was compared."""

    years: int = 0
    orders: int = 0
    invoices: int = 0
    void: int = 0
    late: int = 0
    notes: int = 0


def years_compare(cast: Cast, count: int, *, seed: int = 0, orders: int = 3) -> Compared:
    """`count` years, each in `orders` orders of clicks: all come to what the year's facts come to. Raises AssertionError."""
    found = Compared()
    for number in range(seed, seed + count):
        dice = random.Random(number)
        plan = plan_of(dice)
        for order in range(orders):
            with transaction.atomic():
                walk = Walk(cast, open_market(devices=2, change=plan.books[0]), plan, dice)
                walk.through(clicks_of(dice, 12) if order else [])
                for code in CURRENCIES:
                    expected, total = total_of(walk.facts(code)), walk.total(code)
                    assert total == expected, f"year {number}, order {order}, {code}: {total}, not {expected}"
                found.invoices += walk.check()
                found.void += Invoice.objects.filter(state="void").count()
                found.orders += 1
                found.late += UsageRow.objects.filter(idempotency_key__startswith="late:").count()
                found.notes += CreditNote.objects.exclude(invoice__state="void").count()
                transaction.set_rollback(True)
        found.years += 1
    return found
