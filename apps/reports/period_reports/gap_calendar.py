"""Report free device time by day, and the revenue that the free time could earn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from uuid import UUID

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.pricing.rating import NotPriced, PriceBookDocument, PriceClass
from apps.pricing.selectors import book_in_force, document_of
from apps.reports.margin import total
from apps.reports.period_reports.core import DAY, Column, Metric, ReportData, ReportRequest, Value, hours
from apps.reports.period_reports.service_time import Gap, gaps, service

TERA = 10**12
HOUR = Fraction(3600)
COLUMNS = (
    Column("pool", "Pool"),
    Column("day", "Day (UTC)", "day"),
    Column("gaps", "Gaps", "count"),
    Column("free", "Free", "seconds"),
    Column("longest", "Longest gap", "seconds"),
    Column("price_class", "Class"),
    Column("per_hour", "Revenue per device-hour", "money"),
    Column("fetches", "Possible revenue", "money"),
)


@dataclass
class _Day:
    count: int = 0
    seconds: Fraction = Fraction(0)
    longest: Fraction = Fraction(0)
    fetches: list[Fraction | None] = field(default_factory=list)


@dataclass(frozen=True)
class Rates:
    """The minimum revenue per used device-hour of a pool, at any hour and in off-peak hours. A revenue is None if the
    price book has no suitable price.
    """

    anytime: Fraction | None
    off_peak: Fraction | None
    name: str


def calendar(request: ReportRequest) -> ReportData:
    """Return a row for each pool and future day. Gaps are split at midnight (UTC)."""
    try:
        book = document_of(book_in_force(at=request.now))
    except Problem:
        book = None
    pools = {pool.pk: pool for pool in Pool.objects.select_related("processor").filter(is_active=True).order_by("slug")}
    rates = {pk: gap_rates(book, pool) for pk, pool in pools.items()}
    days = _days(request, book, rates)
    order = {pk: place for place, pk in enumerate(pools)}
    keys = sorted(days, key=lambda key: (order[key[0]], key[1]))
    rows = [_row(pools[pool].slug, day, days[pool, day], rates[pool]) for pool, day in keys]
    currency = book.currency.code if book else request.currency
    worth = [row[7] for row in rows if isinstance(row[7], Fraction)]
    return ReportData(
        COLUMNS,
        rows,
        metrics=[
            Metric(
                "Free", sum((days[key].seconds for key in keys), Fraction(0)), "seconds", "device time of all pools"
            ),
            Metric("Possible revenue", sum(worth, Fraction(0)), "money", "where it is known"),
        ],
        notes=[
            (
                "Possible revenue is what the free time would earn at the minimum price of a used device-hour, in the "
                "cheapest class that may run at each hour."
            ),
            (
                "Possible revenue assumes the minimum number of operations billed per cycle, in the cheapest precision. "
                "Work with more "
                "operations per cycle earns more."
            ),
            "Classes that charge for unused time are left out.",
            "Hosts are priced by operations, not by hours, so their possible revenue is unknown.",
        ],
        chart=_chart(pools, days, request),
        currency=currency,
    )


def _days(
    request: ReportRequest, book: PriceBookDocument | None, rates: dict[UUID, Rates]
) -> dict[tuple[UUID, datetime], _Day]:
    start, end = max(request.period.start, request.now), request.period.end
    days: dict[tuple[UUID, datetime], _Day] = defaultdict(_Day)
    if start >= end:
        return days
    off_peak = book.tariff.intervals(start, end) if book else []
    for gap in gaps(service(start=start, end=end).spans, start=start, end=end):
        if gap.pool in rates:
            _spread(gap, rates[gap.pool], off_peak, days)
    return days


def gap_rates(book: PriceBookDocument | None, pool: Pool) -> Rates:
    """Return the minimum revenue per device-hour from work in a pool's gaps."""
    hourly = None if book is None or pool.processor is None else _list_price(book, pool)
    if book is None or hourly is None:
        return Rates(None, None, "")
    anytime, cheapest = _classes(book)
    if cheapest is None:
        return Rates(None, None, "")
    floor = Fraction(book.floor)
    names = list(dict.fromkeys(one.name for one in (anytime, cheapest) if one is not None))
    return Rates(
        None if anytime is None else hourly * max(_factor(anytime), floor),
        hourly * max(_factor(cheapest), floor),
        ", ".join(names),
    )


def _classes(book: PriceBookDocument) -> tuple[PriceClass | None, PriceClass | None]:
    classes = [one for one in book.classes.values() if one.offered and not one.unused and not one.time_of_use]
    anytime = min((one for one in classes if not one.off_peak_only), key=_factor, default=None)
    return anytime, min(classes, key=_factor, default=None)


def _list_price(book: PriceBookDocument, pool: Pool) -> Fraction | None:
    assert pool.processor is not None
    cycles = pool.clock_at(pool.processor.clock_hz) * HOUR
    found = []
    for precision, price in book.prices.get(pool.processor_class, {}).items():
        try:
            found.append(book.minimum(pool.processor_class, precision) * cycles * Fraction(price) / TERA)
        except NotPriced:
            continue
    return min(found, default=None)


def _factor(one: PriceClass) -> Fraction:
    return Fraction(one.surcharge) * Fraction(one.discount)


def _spread(
    gap: Gap, rates: Rates, off_peak: list[tuple[datetime, datetime]], days: dict[tuple[UUID, datetime], _Day]
) -> None:
    at = gap.start
    while at < gap.end:
        midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
        until = min(gap.end, midnight + DAY)
        length, day = _seconds(until - at), days[gap.pool, midnight]
        day.count += 1
        day.seconds += length
        day.longest = max(day.longest, length)
        overlaps = [(max(at, first), min(until, last)) for first, last in off_peak if first < until and last > at]
        cheap = sum((_seconds(last - first) for first, last in overlaps), Fraction(0))
        day.fetches.append(_worth(rates, cheap, length - cheap))
        at = until


def _worth(rates: Rates, cheap: Fraction, rest: Fraction) -> Fraction | None:
    if rates.off_peak is None:
        return None
    return (rates.off_peak * cheap + (rates.anytime or Fraction(0)) * rest) / HOUR


def _seconds(length: timedelta) -> Fraction:
    return Fraction(length // timedelta(microseconds=1), 10**6)


def _row(pool: str, day: datetime, one: _Day, rates: Rates) -> tuple[Value, ...]:
    fetches = total(one.fetches)
    per_hour = None if fetches is None or not one.seconds else fetches * HOUR / one.seconds
    return pool, day.date().isoformat(), one.count, one.seconds, one.longest, rates.name or None, per_hour, fetches


def _chart(
    pools: dict[UUID, Pool], days: dict[tuple[UUID, datetime], _Day], request: ReportRequest
) -> dict[str, object]:
    every = [request.period.start + DAY * number for number in range((request.period.end - request.period.start).days)]
    return {
        "unit": "h",
        "stacked": True,
        "categories": [f"{day:%m-%d}" for day in every],
        "series": [
            {"name": pool.slug, "values": [hours(days[pk, day].seconds) if (pk, day) in days else 0 for day in every]}
            for pk, pool in pools.items()
        ],
    }
