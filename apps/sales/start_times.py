"""The possible start hours in the coming days, with prices.

Besides the chosen class, only classes whose price depends on the hour are tried. Nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from apps.fleet.selectors import devices_of
from apps.pricing.limits import LONGEST_WINDOW
from apps.pricing.rating import PriceClass, decimal_text, exact_sum, rate
from apps.pricing.rating.tariff import Interval, Span, zone_of
from apps.sales.contract_minimum import with_minimum
from apps.sales.documents import stamp
from apps.sales.models import FormName
from apps.sales.priced import Priced, terms_of
from apps.timetable.admission import Placement, place
from apps.timetable.instants import instant_of, micros_of
from apps.timetable.selectors import WINDOWS_MAX, Demand, free_by_device

DAYS = 7
SHORT_LIST = 6
PER_CLASS = 4
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class StartTime:
    """A possible start within `hour`, with its class, window and price."""

    hour: datetime
    klass: str
    title: str
    begins: datetime
    window_end: datetime
    amount: Decimal
    saving: Fraction

    def to_json(self) -> dict[str, Any]:
        return {
            "klass": self.klass,
            "title": self.title,
            "start": stamp(self.hour),
            "end": stamp(self.window_end),
            "begins": stamp(self.begins),
            "amount": decimal_text(self.amount),
            "share": str(1 - self.saving),
        }


@dataclass(frozen=True)
class Horizon:
    """The data for all hours: the tariff's spans from `now` to `end`, and the free time of every device."""

    now: datetime
    end: datetime
    spans: list[Span]
    free: dict[str, list[Any]]

    def off_peak(self, start: datetime, end: datetime) -> list[Interval]:
        """Return the off-peak parts of [start, end)."""
        return [
            (max(left, start), min(right, end))
            for period, left, right in self.spans
            if period.off_peak and left < end and right > start
        ]

    def dearest(self, start: datetime, end: datetime) -> datetime:
        """Return the first instant of the most expensive period in [start, end)."""
        parts = [
            (period.factor, max(left, start)) for period, left, right in self.spans if left < end and right > start
        ]
        most = max(factor for factor, _ in parts)
        return next(left for factor, left in parts if factor == most)

    def period_at(self, instant: datetime) -> str:
        """Return the name of the tariff period at an instant."""
        return next(period.name for period, left, right in self.spans if left <= instant < right)


def start_times_of(priced: Priced, *, zone: str, now: datetime, days: int = DAYS) -> list[StartTime]:
    """Return the cheapest start in each local hour in which the work can begin.

    `zone`: the time zone. Hours without free time are left out.
    """
    if priced.form.name in {FormName.SPREAD, FormName.INTERVAL} or priced.duration > days * 86_400:
        return []
    horizon = _horizon(priced, now=now, days=days)
    classes = [one for one in priced.book.classes.values() if _depends(one) or one.name == priced.price_class.name]
    prices: dict[tuple[str, str], Decimal] = {}
    found: list[StartTime] = []
    for hour in _hours(now, days, zone):
        tried = [start for one in classes if one.offered and (start := _start(priced, one, hour, horizon, prices))]
        if tried:
            found.append(min(tried, key=lambda start: (start.amount, start.klass != priced.price_class.name)))
    return found


def start_times_cheapest(starts: Iterable[StartTime], *, zone: str) -> list[StartTime]:
    """Return a short list of starts that cost less than the chosen start, cheapest first.

    Each class and local day has at most one start.
    """
    first: dict[tuple[str, Any], StartTime] = {}
    local = zone_of(zone)
    for start in sorted(starts, key=lambda one: (one.amount, one.hour)):
        if start.saving > 0:
            first.setdefault((start.klass, start.hour.astimezone(local).date()), start)
    chosen: list[StartTime] = []
    for start in sorted(first.values(), key=lambda one: (one.amount, one.hour)):
        if sum(one.klass == start.klass for one in chosen) < PER_CLASS and len(chosen) < SHORT_LIST:
            chosen.append(start)
    return chosen


def _depends(price_class: PriceClass) -> bool:
    return price_class.off_peak_only or price_class.time_of_use


def _hours(now: datetime, days: int, zone: str) -> Iterator[datetime]:
    first = now.astimezone(zone_of(zone)).replace(minute=0, second=0, microsecond=0).astimezone(UTC) + HOUR
    return (first + number * HOUR for number in range(days * 24))


def _horizon(priced: Priced, *, now: datetime, days: int) -> Horizon:
    end = now + timedelta(days=2 * days) + HOUR
    spans = priced.book.tariff.spans(now, end)
    return Horizon(now, end, spans, free_by_device(devices_of(priced.pool), now, end, now=now))


def _start(
    priced: Priced, one: PriceClass, hour: datetime, horizon: Horizon, prices: dict[tuple[str, str], Decimal]
) -> StartTime | None:
    end = min(_window_end(priced, one, hour), horizon.end, horizon.now + LONGEST_WINDOW)
    allowed = horizon.off_peak(hour, end) if one.off_peak_only else None
    if allowed is not None and (not allowed or allowed[0][0] >= hour + HOUR):
        return None
    begins = _placed(priced, hour, end, allowed, horizon)
    if begins is None:
        return None
    instant = _bound(one, hour, end, allowed, horizon)
    amount = _price(priced, one, instant, horizon, prices)
    saving = 1 - Fraction(amount) / Fraction(priced.worst)
    return StartTime(hour, one.name, one.title, begins, end, amount, saving)


def _window_end(priced: Priced, one: PriceClass, hour: datetime) -> datetime:
    if one.time_of_use:
        return hour + max(ceil(priced.duration / 3600), 1) * HOUR
    end = hour + timedelta(days=DAYS)
    if one.start_within_minutes is not None:
        latest = timedelta(minutes=one.start_within_minutes, microseconds=ceil(priced.duration * 10**6))
        end = min(end, hour + latest)
    if one.finish_within_minutes is not None:
        end = min(end, hour + timedelta(minutes=one.finish_within_minutes))
    return end


def _placed(
    priced: Priced, hour: datetime, end: datetime, allowed: Sequence[Interval] | None, horizon: Horizon
) -> datetime | None:
    first, last = allowed[0] if allowed else (hour, end)
    length = ceil(priced.duration * 10**6)
    begins = _earliest(horizon, micros_of(max(first, hour)), micros_of(min(last, end)), length)
    longest = max((micros_of(until) - micros_of(since) for since, until in allowed or [(hour, end)]), default=0)
    if begins is None and length > longest:
        begins = _earliest_divided(priced, hour, end, allowed, horizon)
    return instant_of(begins) if begins is not None and begins < micros_of(hour + HOUR) else None


def _earliest(horizon: Horizon, left: int, right: int, length: int) -> int | None:
    starts = (
        max(free.start, left)
        for slots in horizon.free.values()
        for free in slots
        if max(free.start, left) + length <= min(free.end, right)
    )
    return min(starts, default=None)


def _earliest_divided(
    priced: Priced, hour: datetime, end: datetime, allowed: Sequence[Interval] | None, horizon: Horizon
) -> int | None:
    if priced.quantum is None:
        return None
    demand = Demand(priced.duration, hour, end, allowed, priced.setup, priced.quantum, WINDOWS_MAX)
    found = place(demand.work(), horizon.free, demand.limits(now=horizon.now))
    return min(piece.start for piece in found.windows) if isinstance(found, Placement) else None


def _bound(
    one: PriceClass, hour: datetime, end: datetime, allowed: Sequence[Interval] | None, horizon: Horizon
) -> datetime:
    if allowed is not None:
        return allowed[0][0]
    return horizon.dearest(hour, end) if one.time_of_use else hour


def _price(
    priced: Priced, one: PriceClass, instant: datetime, horizon: Horizon, prices: dict[tuple[str, str], Decimal]
) -> Decimal:
    key = (one.name, horizon.period_at(instant))
    if key not in prices:
        lines = exact_sum(
            rate(
                book=priced.book,
                counts=line.request_line.snapshot.counts,
                executions=line.request_line.executions,
                terms=terms_of(line.request_line, priced.pool, one.name, instant, priced.form),
            ).amount
            for line in priced.lines
        )
        prices[key] = with_minimum(priced.book, lines)
    return prices[key]
