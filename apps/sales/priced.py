"""Priced requests: lines with their ratings, and the demand for device time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
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
    decimal_text,
    exact_sum,
    rate,
)
from apps.sales.capacity import duration_of, pool_check
from apps.sales.contract_minimum import minimum_rating, with_minimum
from apps.sales.models import FormName
from apps.sales.request_lines import QuoteRequestLine, request_lines_merge
from apps.sales.snapshots import ProgramSnapshot
from apps.sales.volumes import PER_EXECUTION, Form, form_check, schedule_of
from apps.timetable.selectors import Slot, reservation_preview, windows_tried


@dataclass(frozen=True)
class Line:
    """A priced line. `worst` rates the maximum volume. `expected` rates the expected volume."""

    request_line: QuoteRequestLine
    worst: Rating
    expected: Rating | None

    def to_json(self, number: int) -> dict[str, Any]:
        snapshot = self.request_line.snapshot
        return {
            "number": number,
            "program": None if snapshot.is_quota else snapshot.to_json(),
            **({"quota": _quota_json(snapshot)} if snapshot.is_quota else {}),
            "executions": self.request_line.executions,
            "expected_executions": self.request_line.expected,
            "rating": self.worst.to_json(),
            "expected_rating": self.expected.to_json() if self.expected else None,
            "amount": decimal_text(self.worst.amount),
            "expected_amount": decimal_text(self.expected.amount if self.expected else Decimal(0)),
        }


@dataclass(frozen=True)
class Priced:
    """A priced request. Nothing is reserved or stored."""

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
        """The amount of the hold."""
        return with_minimum(self.book, exact_sum(line.worst.amount for line in self.lines))

    @property
    def expected(self) -> Decimal:
        return with_minimum(self.book, self.expected_lines)

    @property
    def expected_lines(self) -> Decimal:
        return exact_sum(line.expected.amount for line in self.lines if line.expected)

    @property
    def minimum(self) -> Rating | None:
        amounts = (line.worst.amount for line in self.lines)
        return minimum_rating(self.book, self.lines[0].worst.terms, amounts)

    @property
    def demand(self) -> dict[str, Any]:
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
        """The seconds of one execution; None if the work must not be split between windows."""
        if len(self.lines) != 1 or self.form.name in {FormName.QUOTA, FormName.INTERVAL}:
            return None
        return (self.duration - self.setup) / self.lines[0].request_line.executions

    @property
    def windows(self) -> tuple[int, ...]:
        return windows_tried(self.quantum)

    def preview(self, *, now: datetime) -> list[Slot] | None:
        """Return the windows that would be reserved now; None if there is no room."""
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
        schedule = self.lines[0].request_line.schedule
        if self.form.name != FormName.SPREAD or schedule is None:
            return [self.demand]
        executions, snapshot = schedule.each, self.lines[0].request_line.snapshot
        duration = self.setup + (self.duration - self.setup) * executions / self.lines[0].request_line.executions
        step = timedelta(microseconds=int(schedule.every * 10**6))
        begins = [self.window.start + number * step for number in range(schedule.intervals)]
        assert snapshot.digest, "a schedule belongs to a program"
        return [
            {
                **self.demand,
                "duration": duration,
                "not_before": max(begin, self.limits.not_before),
                "not_after": min(begin + step, self.limits.not_after),
            }
            for begin in begins
        ]


def request_lines_price(
    *,
    request_lines: Sequence[QuoteRequestLine],
    book: PriceBookDocument,
    klass: str,
    pool: Pool,
    window: Window,
    now: datetime,
    form: Form = PER_EXECUTION,
) -> Priced:
    """Price request lines. Raises Problem if the lines cannot be priced or run."""
    form_check(form, request_lines)
    request_lines = [_scheduled(form, request_line, window) for request_line in request_lines_merge(request_lines)]
    for request_line in request_lines:
        pool_check(request_line.snapshot, pool)
    duration, setup = duration_of(request_lines, pool, book, form)
    try:
        price_class = book.price_class(klass)
        instant = tariff_instant(book=book, price_class=price_class, window=window)
        lines = tuple(_line(book, request_line, pool, klass, instant, form) for request_line in request_lines)
    except RatingError as error:
        raise Problem(422, "Not priced", str(error), kind="not-priced") from error
    limits = limits_of(book=book, price_class=price_class, window=window, duration=duration, now=now)
    return Priced(book, price_class, pool, window, instant, lines, duration, setup, limits, form)


def _scheduled(form: Form, request_line: QuoteRequestLine, window: Window) -> QuoteRequestLine:
    schedule = schedule_of(form, request_line, window)
    if schedule is None:
        return request_line
    return replace(request_line, executions=schedule.executions, expected=schedule.executions, schedule=schedule)


def terms_of(request_line: QuoteRequestLine, pool: Pool, klass: str, instant: datetime, form: Form) -> Terms:
    """Return the terms under which a line is rated."""
    return Terms(
        pool.processor_class,
        request_line.snapshot.precision,
        klass,
        instant=instant,
        form=str(form.name),
        schedule=request_line.schedule,
        measured=request_line.measured,
        commitment=request_line.commitment,
        commitment_factor=request_line.commitment_factor,
    )


def _line(
    book: PriceBookDocument, request_line: QuoteRequestLine, pool: Pool, klass: str, instant: datetime, form: Form
) -> Line:
    terms = terms_of(request_line, pool, klass, instant, form)
    counts = request_line.snapshot.counts
    worst = rate(book=book, counts=counts, executions=request_line.executions, terms=terms)
    expected: Rating | None = worst
    if request_line.expected != request_line.executions:
        expected = (
            rate(book=book, counts=counts, executions=request_line.expected, terms=terms)
            if request_line.expected
            else None
        )
    return Line(request_line, worst, expected)


def _quota_json(snapshot: ProgramSnapshot) -> dict[str, Any]:
    return {
        "precision": snapshot.precision,
        "operations": snapshot.operations,
        "target": snapshot.target,
        "clock_hz": snapshot.clock_hz,
    }
