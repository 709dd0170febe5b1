"""Divide owned device time by cause: used, reserved but unused, free, or unsellable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise, product
from uuid import UUID

from apps.accounts.problems import Problem
from apps.figures import duration_format
from apps.fleet.models import Pool
from apps.pricing.rating.tariff import Interval
from apps.pricing.selectors import book_in_force, document_of
from apps.reports.margin import device_time
from apps.reports.period_reports.core import Column, Metric, ReportData, ReportRequest, Value, hours, ratio
from apps.reports.period_reports.service_time import Gap, Gaps, Service, gaps, gaps_summed, service, usual_work

USUAL_OVER = timedelta(days=28)
RAN, IDLE, FREE = "used", "reserved but unused", "free"
OUT, POWER, SHORT, LIMITS = "out of service", "reduced power", "gaps too short", "outside class hours"
NONE = Gaps(0, Fraction(0), 0, Fraction(0))
CAUSES = (RAN, IDLE, OUT, POWER, SHORT, LIMITS, FREE)
STRANDED = (IDLE, OUT, POWER, SHORT, LIMITS)
COLUMNS = (
    Column("pool", "Pool"),
    Column("cause", "Use or cause"),
    Column("seconds", "Device time at full power", "seconds"),
    Column("share", "Share of owned", "share"),
)


def stranded(request: ReportRequest) -> ReportData:
    """Return a row for each pool and cause. The rows of a pool add up to the pool's owned time at full power."""
    start, until = request.period.start, request.until
    found = service(start=start, end=until)
    before = until - min(USUAL_OVER, until - datetime.min.replace(tzinfo=UTC))  # dates start with the year 1
    usual = usual_work(start=min(start, before), end=until)
    pools = list(Pool.objects.order_by("slug"))
    parts = _parts(found, usual, request)
    owned = [(pool, parts[pool.pk]) for pool in pools if found.owned.get(pool.pk)]
    rows: list[tuple[Value, ...]] = [
        (pool.slug, cause, some[cause], ratio(some[cause], found.owned[pool.pk]))
        for (pool, some), cause in product(owned, CAUSES)
    ]
    whole = sum((found.owned[pool.pk] for pool, _ in owned), Fraction(0))
    lost = sum((some[cause] for (_, some), cause in product(owned, STRANDED)), Fraction(0))
    busy = sum((some[RAN] for _, some in owned), Fraction(0))
    return ReportData(
        COLUMNS,
        rows if busy or lost else [],
        metrics=[
            Metric("Owned", whole, "seconds", "device time of all pools"),
            Metric("Used", ratio(busy, whole), "share", "of owned device time"),
            Metric(
                "Stranded",
                ratio(lost, whole),
                "share",
                "reserved but unused, out of service, reduced power or short gaps",
            ),
        ],
        notes=_notes(owned, usual),
        chart=_chart(owned),
    )


def _chart(owned: list[tuple[Pool, dict[str, Fraction]]]) -> dict[str, object]:
    return {
        "unit": "h",
        "horizontal": True,
        "stacked": True,
        "categories": [pool.slug for pool, _ in owned],
        "series": [
            {"name": cause, "values": [hours(some[cause]) for _, some in owned]}
            for cause in CAUSES
            if any(some[cause] for _, some in owned)
        ],
    }


def _parts(found: Service, usual: dict[UUID, int], request: ReportRequest) -> dict[UUID, dict[str, Fraction]]:
    start, until = request.period.start, request.until
    empty = gaps_summed(found.spans, usual, start=start, end=until)
    ran = {one.pool.pk: one.ran.seconds for one in device_time(start=start, end=until, currency=request.currency).pools}
    closed = _closed(found, start, until)
    return {pool: _split(pool, found, empty, ran, closed) for pool in found.owned}


def _split(
    pool: UUID, found: Service, empty: dict[UUID, Gaps], ran: dict[UUID, Fraction], closed: dict[UUID, Fraction]
) -> dict[str, Fraction]:
    zero = Fraction(0)
    owned, out, saved = found.owned[pool], found.out.get(pool, zero), found.saved.get(pool, zero)
    serving = owned - out
    speed = (serving - saved) / serving if serving else zero
    some = empty.get(pool, NONE)
    unallocated, short = some.seconds, some.short
    limits = min(closed.get(pool, zero), unallocated - short)
    busy = min(ran.get(pool, zero), serving - unallocated)
    use = {
        RAN: busy,
        IDLE: serving - unallocated - busy,
        SHORT: short,
        LIMITS: limits,
        FREE: unallocated - short - limits,
    }
    return {**{cause: seconds * speed for cause, seconds in use.items()}, OUT: out, POWER: saved}


def _closed(found: Service, start: datetime, until: datetime) -> dict[UUID, Fraction]:
    try:
        book = document_of(book_in_force(at=until))
    except Problem:
        return {}
    if not book.classes or any(not one.off_peak_only for one in book.classes.values()):
        return {}
    shut = _outside(book.tariff.intervals(start, until), start, until)
    closed: dict[UUID, Fraction] = {}
    for free in gaps(found.spans, start=start, end=until):
        seconds = sum((_overlap(free, one) for one in shut), Fraction(0))
        if seconds:
            closed[free.pool] = closed.get(free.pool, Fraction(0)) + seconds
    return closed


def _outside(allowed: list[Interval], start: datetime, until: datetime) -> list[Interval]:
    edges = [start, *(instant for one in allowed for instant in one), until]
    return [(first, last) for first, last in list(pairwise(edges))[::2] if first < last]


def _overlap(free: Gap, interval: Interval) -> Fraction:
    length = (min(free.end, interval[1]) - max(free.start, interval[0])) / timedelta(microseconds=1)
    return Fraction(round(length), 10**6) if length > 0 else Fraction(0)


def _notes(owned: list[tuple[Pool, dict[str, Fraction]]], usual: dict[UUID, int]) -> list[str]:
    sentences = [
        f"{pool.slug}: gaps shorter than {duration_format(Fraction(usual[pool.pk], 10**6))} are too short, because 90 % of the "
        "windows sold there are longer."
        for pool, _ in owned
        if pool.pk in usual
    ]
    return [
        *sentences,
        "“Out of service” includes draining, failed and spare devices.",
        (
            "“Reduced power” is the device time that a power setting below 100 % removes. The other causes are counted at the "
            "reduced power setting."
        ),
    ]
