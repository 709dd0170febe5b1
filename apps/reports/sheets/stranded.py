"""Where the capacity of a period went: what ran, what was sold and idle, and what nobody could have bought, by cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from uuid import UUID

from apps.accounts.problems import Problem
from apps.figures import duration_format
from apps.fleet.models import Pool
from apps.pricing.selectors import book_in_force, document_of
from apps.reports.margin import device_time
from apps.reports.sheets.core import Asked, Column, Metric, Sheet, Value, hours, ratio
from apps.reports.sheets.spans import Gaps, Service, gaps, gaps_summed, service, usual_work

USUAL_OVER = timedelta(days=28)
RAN, IDLE, FREE = "ran", "sold and idle", "free"
OUT, POWER, SHORT, LIMITS = "out of service", "reduced power", "gaps too short", "outside class hours"
NONE = Gaps(0, Fraction(0), 0, Fraction(0))
CAUSES = (RAN, IDLE, OUT, POWER, SHORT, LIMITS, FREE)
STRANDED = (IDLE, OUT, POWER, SHORT, LIMITS)
COLUMNS = (
    Column("pool", "Pool"),
    Column("cause", "Where it went"),
    Column("seconds", "Device time at full power", "seconds"),
    Column("share", "Of what is owned", "share"),
)


def stranded(asked: Asked) -> Sheet:
    """One row for each pool and cause; the causes of a pool sum to what is owned, at full power."""
    start, until = asked.period.start, asked.until
    found = service(start=start, end=until)
    before = until - min(USUAL_OVER, until - datetime.min.replace(tzinfo=UTC))  # the calendar begins with the year 1
    usual = usual_work(start=min(start, before), end=until)
    pools = list(Pool.objects.order_by("slug"))
    parts = _parts(found, usual, asked)
    owned = [(pool, parts[pool.pk]) for pool in pools if found.owned.get(pool.pk)]
    rows: list[tuple[Value, ...]] = [
        (pool.slug, cause, some[cause], ratio(some[cause], found.owned[pool.pk]))
        for pool, some in owned
        for cause in CAUSES
    ]
    whole = sum((found.owned[pool.pk] for pool, _ in owned), Fraction(0))
    lost = sum((some[cause] for _, some in owned for cause in STRANDED), Fraction(0))
    busy = sum((some[RAN] for _, some in owned), Fraction(0))
    return Sheet(
        COLUMNS,
        rows if busy or lost else [],
        metrics=[
            Metric("Owned", whole, "seconds", "device time of all pools"),
            Metric("Ran", ratio(busy, whole), "share"),
            Metric("Stranded", ratio(lost, whole), "share", "sold and idle, out of service, reduced power, short gaps"),
        ],
        notes=_notes(owned, usual),
        chart={
            "unit": "h",
            "horizontal": True,
            "stacked": True,
            "categories": [pool.slug for pool, _ in owned],
            "series": [
                {"name": cause, "values": [hours(some[cause]) for _, some in owned]}
                for cause in CAUSES
                if any(some[cause] for _, some in owned)
            ],
        },
    )


def _parts(found: Service, usual: dict[UUID, int], asked: Asked) -> dict[UUID, dict[str, Fraction]]:
    """By pool the seconds at full power of each cause."""
    start, until = asked.period.start, asked.until
    empty = gaps_summed(found.spans, usual, start=start, end=until)
    ran = {one.pool.pk: one.ran.seconds for one in device_time(start=start, end=until, currency=asked.currency).pools}
    closed = _closed(found, start, until)
    return {pool: _split(pool, found, empty, ran, closed) for pool in found.owned}


def _split(
    pool: UUID, found: Service, empty: dict[UUID, Gaps], ran: dict[UUID, Fraction], closed: dict[UUID, Fraction]
) -> dict[str, Fraction]:
    """What is owned, parted: out of service first, then the power setting's share of the rest, then by use."""
    zero = Fraction(0)
    owned, out, saved = found.owned[pool], found.out.get(pool, zero), found.saved.get(pool, zero)
    serving = owned - out
    speed = (serving - saved) / serving if serving else zero
    some = empty.get(pool, NONE)
    nobody, short = some.seconds, some.short
    limits = min(closed.get(pool, zero), nobody - short)
    busy = min(ran.get(pool, zero), serving - nobody)
    use = {RAN: busy, IDLE: serving - nobody - busy, SHORT: short, LIMITS: limits, FREE: nobody - short - limits}
    return {**{cause: seconds * speed for cause, seconds in use.items()}, OUT: out, POWER: saved}


def _closed(found: Service, start: datetime, until: datetime) -> dict[UUID, Fraction]:
    """By pool the free seconds in which no class of the price book in force may begin: none, as long as one class may run at
    any hour."""
    try:
        book = document_of(book_in_force(at=until))
    except Problem:
        return {}
    if not book.classes or any(not one.off_peak_only for one in book.classes.values()):
        return {}
    allowed = [(one[0], one[1]) for one in book.tariff.intervals(start, until)]
    edges = [start, *(instant for one in allowed for instant in one), until]
    shut = [(first, last) for first, last in list(pairwise(edges))[::2] if first < last]
    closed: dict[UUID, Fraction] = {}
    for free in gaps(found.spans, start=start, end=until):
        for first, last in shut:
            length = (min(free.end, last) - max(free.start, first)) / timedelta(microseconds=1)
            if length > 0:
                closed[free.pool] = closed.get(free.pool, Fraction(0)) + Fraction(round(length), 10**6)
    return closed


def _notes(owned: list[tuple[Pool, dict[str, Fraction]]], usual: dict[UUID, int]) -> list[str]:
    said = [
        f"{pool.slug}: a gap shorter than {duration_format(Fraction(usual[pool.pk], 10**6))} is too short, because nine of ten "
        "windows sold there are longer."
        for pool, _ in owned
        if pool.pk in usual
    ]
    return [
        *said,
        "Out of service: draining, failed and spare devices.",
        "Reduced power: what a power setting below 100 % leaves out; the other causes are counted at that setting.",
    ]
