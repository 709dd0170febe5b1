"""How a quote is put together. One path for the live preview, the stored quote and its alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.pricing.limits import Limits, Window, limits_of, tariff_instant
from apps.pricing.rating import (
    PriceBookDocument,
    PriceClass,
    Rating,
    RatingError,
    Terms,
    amount_text,
    decimal_text,
    exact_sum,
    payable_of,
    rate,
)
from apps.sales.asks import Ask, asks_merge
from apps.sales.capacity import duration_of, pool_check
from apps.sales.facts import ProgramFacts
from apps.sales.late import late_json, late_said
from apps.sales.loading import loading_assumptions, loading_json
from apps.sales.minimum import minimum_json, minimum_rating, with_minimum
from apps.sales.models import FormName
from apps.sales.volumes import PER_EXECUTION, Form, form_check, schedule_of
from apps.timetable.selectors import Slot, reservation_preview, windows_tried

FORMAT = "takt-quote/1"


@dataclass(frozen=True)
class Line:
    """A priced line: the worst case, which is held, and what is expected."""

    ask: Ask
    worst: Rating
    expected: Rating | None

    def to_json(self, number: int) -> dict[str, Any]:
        facts = self.ask.facts
        return {
            "number": number,
            "program": None if facts.is_quota else facts.to_json(),
            **({"quota": _quota_json(facts)} if facts.is_quota else {}),
            "executions": self.ask.executions,
            "expected_executions": self.ask.expected,
            "rating": self.worst.to_json(),
            "expected_rating": self.expected.to_json() if self.expected else None,
            "amount": decimal_text(self.worst.amount),
            "expected_amount": decimal_text(self.expected.amount if self.expected else Decimal(0)),
        }


@dataclass(frozen=True)
class Priced:
    """Everything about an offer that follows from what was asked; takes and stores nothing."""

    book: PriceBookDocument
    price_class: PriceClass
    pool: Pool
    window: Window
    instant: datetime
    lines: tuple[Line, ...]
    duration: Fraction
    setup: Fraction
    limits: Limits
    form: Form = PER_EXECUTION

    @property
    def worst(self) -> Decimal:
        """What is held and, when all is used, charged: the lines, or the contract's minimum where they come to less."""
        return with_minimum(self.book, exact_sum(line.worst.amount for line in self.lines))

    @property
    def expected(self) -> Decimal:
        """What is expected to be charged."""
        return with_minimum(self.book, self.expected_lines)

    @property
    def expected_lines(self) -> Decimal:
        """What is expected to be charged for use alone."""
        return exact_sum(line.expected.amount for line in self.lines if line.expected)

    @property
    def minimum(self) -> Rating | None:
        """What the lines lack to the contract's minimum; None where the book asks for none."""
        amounts = (line.worst.amount for line in self.lines)
        return minimum_rating(self.book, self.lines[0].worst.terms, amounts)

    @property
    def demand(self) -> dict[str, Any]:
        """What is asked of the timetable, in the words of `reservation_take` and `reservation_preview`."""
        return {
            "pool": self.pool,
            "duration": self.duration,
            "not_before": self.limits.not_before,
            "not_after": self.limits.not_after,
            "allowed": self.limits.allowed,
            "setup": self.setup,
            "quantum": self.quantum,
        }

    @property
    def quantum(self) -> Fraction | None:
        """Seconds of one execution, which is never cut; None for several programs, whose work stays in one piece."""
        if len(self.lines) != 1 or self.form.name in {FormName.QUOTA, FormName.INTERVAL}:
            return None
        return (self.duration - self.setup) / self.lines[0].ask.executions

    @property
    def windows(self) -> tuple[int, ...]:
        """How many windows to try with, the fewest first."""
        return windows_tried(self.quantum)

    def preview(self, *, now: datetime) -> list[Slot] | None:
        """The windows that would be taken at this moment; None when there is no room."""
        found: list[Slot] = []
        for demand in self.demands:
            slots = self._preview(demand, now=now)
            if slots is None:
                return None
            found += slots
        return found

    def _preview(self, demand: dict[str, Any], *, now: datetime) -> list[Slot] | None:
        if demand["not_before"] >= demand["not_after"]:
            return None
        for most in self.windows:
            found = reservation_preview(**demand, windows_max=most, now=now)
            if found is not None:
                return found
        return None

    @property
    def demands(self) -> list[dict[str, Any]]:
        """One demand, or for a contract spread over a period one for each of its equal parts, in its own time."""
        schedule = self.lines[0].ask.schedule
        if self.form.name != FormName.SPREAD or schedule is None:
            return [self.demand]
        executions, facts = schedule.each, self.lines[0].ask.facts
        duration = self.setup + (self.duration - self.setup) * executions / self.lines[0].ask.executions
        step = timedelta(microseconds=int(schedule.every * 10**6))
        begins = [self.window.start + number * step for number in range(schedule.intervals)]
        assert facts.digest, "a schedule belongs to a program"
        return [
            {
                **self.demand,
                "duration": duration,
                "not_before": max(begin, self.limits.not_before),
                "not_after": min(begin + step, self.limits.not_after),
            }
            for begin in begins
        ]


def price_asks(
    *,
    asks: Sequence[Ask],
    book: PriceBookDocument,
    klass: str,
    pool: Pool,
    window: Window,
    now: datetime,
    form: Form = PER_EXECUTION,
) -> Priced:
    """Price what was asked. Raises Problem when it cannot be priced or run, with what to do."""
    form_check(form, asks)
    asks = [_scheduled(form, ask, window) for ask in asks_merge(asks)]
    for ask in asks:
        pool_check(ask.facts, pool)
    duration, setup = duration_of(asks, pool, book, form)
    try:
        price_class = book.price_class(klass)
        instant = tariff_instant(book=book, price_class=price_class, window=window)
        lines = tuple(_line(book, ask, pool, klass, instant, form) for ask in asks)
    except RatingError as error:
        raise Problem(422, "Not priced", str(error), kind="not-priced") from error
    limits = limits_of(book=book, price_class=price_class, window=window, duration=duration, now=now)
    return Priced(book, price_class, pool, window, instant, lines, duration, setup, limits, form)


def _scheduled(form: Form, ask: Ask, window: Window) -> Ask:
    schedule = schedule_of(form, ask, window)
    if schedule is None:
        return ask
    return replace(ask, executions=schedule.executions, expected=schedule.executions, schedule=schedule)


def quote_document(
    *,
    priced: Priced,
    identity: dict[str, Any],
    alternatives: list[dict[str, Any]],
    starts: list[dict[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    """The immutable document of a quote: lines x steps, totals, assumptions, validity, what it would take."""
    book, slots, minimum = priced.book, priced.preview(now=now), priced.minimum
    rounded = payable_of(priced.worst, exponent=book.currency.exponent)
    return {
        "format": FORMAT,
        **identity,
        "created_at": stamp(now),
        "valid_until": stamp(now + timedelta(minutes=book.quote_validity_minutes)),
        "book": {"version": book.version, "digest": book.digest},
        "currency": book.currency.to_json(),
        "class": {"name": priced.price_class.name, **priced.price_class.to_json()},
        **({} if priced.form == PER_EXECUTION else {"form": priced.form.to_json()}),
        "pool": pool_json(priced.pool),
        "window": {"start": stamp(priced.window.start), "end": stamp(priced.window.end)},
        "tariff": {"instant": stamp(priced.instant), "zone": book.tariff.zone},
        "lines": [line.to_json(number) for number, line in enumerate(priced.lines, 1)],
        **({} if minimum is None else {"minimum": minimum_json(book, minimum, priced.expected_lines)}),
        **_late(priced, slots),
        "net": decimal_text(priced.worst),
        "expected": decimal_text(priced.expected),
        "payable": decimal_text(rounded.payable),
        "carried": decimal_text(rounded.carried),
        "device_seconds": str(priced.duration),
        **loading_json([line.ask for line in priced.lines], priced.pool),
        "reservation": None
        if slots is None
        else [{"device": one.device.name, "start": stamp(one.start), "end": stamp(one.end)} for one in slots],
        "assumptions": assumptions_of(priced),
        "alternatives": alternatives,
        **({"starts": starts} if starts else {}),
    }


def _late(priced: Priced, slots: Sequence[Slot] | None) -> dict[str, Any]:
    return late_json(
        book=priced.book,
        price_class=priced.price_class,
        asks=[line.ask for line in priced.lines],
        terms=[line.worst.terms for line in priced.lines],
        duration=priced.duration,
        is_host=priced.pool.is_host,
        reserved=None if slots is None else [(one.start, one.end) for one in slots],
        stamp=stamp,
    )


def assumptions_of(priced: Priced) -> list[str]:
    """What the price rests on, in sentences."""
    said = [
        f"{priced.price_class.title}: {priced.price_class.promise}",
        "Operations and cycles are those of the compiled program; running it does not change them.",
        "Tax is not part of the net amount.",
    ]
    said += loading_assumptions([line.ask for line in priced.lines], priced.pool)
    for line in priced.lines:
        facts = line.ask.facts
        said += [sentence for sentence in [_form_said(priced, line.ask)] if sentence]
        if not facts.exact:
            charged = (
                "the proven upper bound is held, and what is measured is charged, never more than the bound"
                if line.ask.measured
                else "the proven upper bound is priced"
            )
            said.append(f"{facts.model}: its cost depends on the data ({facts.reason}); {charged}.")
        if line.ask.expected != line.ask.executions:
            said.append(
                f"{facts.model}: {line.ask.expected:,} of {line.ask.executions:,} executions are expected; the worst "
                f"case is held, what is not used {_not_used_said(priced, line.ask)}."
            )
    if priced.price_class.late is not None:
        said.append(late_said(priced.price_class.late, unused=priced.price_class.unused))
    if priced.book.contract_minimum:
        unit = priced.book.currency
        least = amount_text(priced.book.contract_minimum, exponent=unit.exponent)
        said.append(
            f"A contract costs at least {least} {unit.code}; what its use comes to less is charged when it closes."
        )
    agreed = priced.lines[0].ask
    if agreed.commitment_factor is not None:
        said.append(
            f"Bought under a commitment ({agreed.commitment}): its factor of {decimal_text(agreed.commitment_factor)} was "
            "agreed when it was entered."
        )
    if priced.pool.is_host:
        said.append("The latency on this pool is measured, not proven; the price rests on the compiled counts alone.")
    return said


def _not_used_said(priced: Priced, ask: Ask) -> str:
    if priced.price_class.late is None or ask.planned:
        return "is not charged"
    return "costs what late cancellation says"


def _form_said(priced: Priced, ask: Ask) -> str:
    """What the form of the contract means, in a sentence; nothing for a contract per execution."""
    schedule = ask.schedule
    if ask.facts.is_quota:
        return (
            f"Any program of the organisation in {ask.facts.precision} on {priced.pool.processor_class} draws its billed "
            f"operations from {ask.facts.operations:,}; the time is reserved that these take at most."
        )
    if schedule is None:
        return ""
    if priced.form.name == FormName.SPREAD:
        return (
            f"{schedule.each:,} executions run in each of {schedule.intervals:,} parts of {schedule.every} seconds, counted "
            "from the beginning of the period."
        )
    return (
        f"Exactly {schedule.each:,} executions run in each of {schedule.intervals:,} intervals of {schedule.every} seconds; "
        f"what of them is not used costs {priced.price_class.unused} of the list price."
    )


def alternatives_of(*, asks: Sequence[Ask], chosen: Priced, now: datetime) -> list[dict[str, Any]]:
    """The other classes on offer for the same work, cheapest first, with the moment at which each would begin."""
    found: list[tuple[Decimal, dict[str, Any]]] = []
    for name, price_class in chosen.book.classes.items():
        if not price_class.offered or name == chosen.price_class.name:
            continue
        try:
            other = price_asks(
                asks=asks,
                book=chosen.book,
                klass=name,
                pool=chosen.pool,
                window=chosen.window,
                now=now,
                form=chosen.form,
            )
        except Problem:
            continue
        slots = other.preview(now=now)
        found.append(
            (
                other.worst,
                {
                    "klass": name,
                    "title": price_class.title,
                    "promise": price_class.promise,
                    "amount": decimal_text(other.worst),
                    "share": str(Fraction(other.worst) / Fraction(chosen.worst)),
                    "start": stamp(min(one.start for one in slots)) if slots else None,
                    "end": stamp(max(one.end for one in slots)) if slots else None,
                },
            )
        )
    return [document for _, document in sorted(found, key=lambda pair: pair[0])]


def pool_json(pool: Pool) -> dict[str, Any]:
    """A pool as documents name it."""
    return {
        "slug": pool.slug,
        "name": pool.name,
        "kind": pool.kind,
        "processor_class": pool.processor_class,
        "target": pool.target,
        **({} if pool.power_percent == 100 else {"power_percent": pool.power_percent}),
    }


def stamp(instant: datetime) -> str:
    """An instant in documents: UTC, ISO 8601, to the microsecond where it has one."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _quota_json(facts: ProgramFacts) -> dict[str, Any]:
    """A quota as documents state it; `quota_facts` reads it back."""
    return {
        "precision": facts.precision,
        "operations": facts.operations,
        "target": facts.target,
        "clock_hz": facts.clock_hz,
    }


def terms_of(ask: Ask, pool: Pool, klass: str, instant: datetime, form: Form) -> Terms:
    """What a line is rated by."""
    return Terms(
        pool.processor_class,
        ask.facts.precision,
        klass,
        instant=instant,
        form=str(form.name),
        schedule=ask.schedule,
        measured=ask.measured,
        commitment=ask.commitment,
        commitment_factor=ask.commitment_factor,
    )


def _line(book: PriceBookDocument, ask: Ask, pool: Pool, klass: str, instant: datetime, form: Form) -> Line:
    terms = terms_of(ask, pool, klass, instant, form)
    counts = ask.facts.counts
    worst = rate(book=book, counts=counts, executions=ask.executions, terms=terms)
    expected: Rating | None = worst
    if ask.expected != ask.executions:
        expected = rate(book=book, counts=counts, executions=ask.expected, terms=terms) if ask.expected else None
    return Line(ask, worst, expected)
