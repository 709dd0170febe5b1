"""Tariff periods by hour: month x hour matrices in a named time zone, as in the US Utility Rate Database.

Every interval is half-open and in UTC. Days of 23 or 25 hours have their real length.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apps.pricing.rating.decimals import decimal_text
from apps.pricing.rating.errors import NotPriced, RatingError

Interval = tuple[datetime, datetime]
Matrix = tuple[tuple[int, ...], ...]

# Every offset in use today is a multiple of 15 minutes, and clocks change on such a mark.
_STEP = timedelta(minutes=15)
_LONGEST = timedelta(days=400)


@dataclass(frozen=True)
class Period:
    """A tariff period. `factor` multiplies the list price in classes whose price depends on the hour."""

    name: str
    off_peak: bool
    factor: Decimal = Decimal(1)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"name": self.name, "off_peak": self.off_peak}
        if self.factor != 1:
            document["factor"] = decimal_text(self.factor)
        return document


Span = tuple[Period, datetime, datetime]


@dataclass(frozen=True, order=True)
class Holiday:
    """A local date that is treated as a weekend day."""

    day: date
    name: str


@dataclass(frozen=True)
class Tariff:
    """The tariff period of every local hour. Each matrix has 12 rows (months) of 24 indices into `periods`."""

    zone: str
    periods: tuple[Period, ...]
    weekday: Matrix
    weekend: Matrix
    holidays: tuple[Holiday, ...]

    @cached_property
    def tzinfo(self) -> ZoneInfo:
        return zone_of(self.zone)

    @cached_property
    def _holiday_dates(self) -> frozenset[date]:
        return frozenset(holiday.day for holiday in self.holidays)

    def period_at(self, instant: datetime) -> Period:
        """Return the tariff period at a timezone-aware instant."""
        local = instant.astimezone(self.tzinfo)
        resting = local.weekday() >= 5 or local.date() in self._holiday_dates
        matrix = self.weekend if resting else self.weekday
        return self.periods[matrix[local.month - 1][local.hour]]

    def is_off_peak(self, instant: datetime) -> bool:
        """Return whether `instant` is in an off-peak hour."""
        return self.period_at(instant).off_peak

    def period(self, name: str) -> Period:
        """Return the period named `name`. Raises NotPriced if there is none."""
        for item in self.periods:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.periods)
        raise NotPriced(f"the tariff has no period {name!r} (it has {known})")

    def spans(self, start: datetime, end: datetime) -> list[Span]:
        """Split [start, end) at each change of period, and return (period, start, end) in UTC."""
        _check_span(start, end)
        found: list[Span] = []
        left = start.astimezone(UTC)
        stop = end.astimezone(UTC)
        while left < stop:
            mark = left.replace(minute=left.minute - left.minute % 15, second=0, microsecond=0)
            right = min(mark + _STEP, stop)
            period = self.period_at(left)
            if found and found[-1][0] is period:
                found[-1] = (period, found[-1][1], right)
            else:
                found.append((period, left, right))
            left = right
        return found

    def intervals(self, start: datetime, end: datetime, *, off_peak: bool = True) -> list[Interval]:
        """Return the off-peak parts of [start, end), or the peak parts if `off_peak` is False."""
        return merge([(left, right) for period, left, right in self.spans(start, end) if period.off_peak == off_peak])

    def dearest(self, start: datetime, end: datetime) -> datetime:
        """Return the first instant in [start, end) at which the price factor is highest."""
        spans = self.spans(start, end)
        if not spans:
            raise RatingError("A window that ends before it begins cannot be priced.")
        most = max(period.factor for period, _, _ in spans)
        return next(left for period, left, _ in spans if period.factor == most)

    def to_json(self) -> dict[str, Any]:
        """Return the tariff in its stored form."""
        return {
            "zone": self.zone,
            "periods": [period.to_json() for period in self.periods],
            "weekday": [list(row) for row in self.weekday],
            "weekend": [list(row) for row in self.weekend],
            "holidays": [{"day": item.day.isoformat(), "name": item.name} for item in self.holidays],
        }


def zone_of(name: str) -> ZoneInfo:
    """Return the IANA time zone named `name`. Raises RatingError if the time zone is unknown."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise RatingError(
            f"The time zone {name!r} is unknown; check the spelling (such as Europe/Berlin) or, if this machine "
            "has no time zone data, run: pip install tzdata"
        ) from error


def intersect(left: list[Interval], right: list[Interval]) -> list[Interval]:
    """Return the intersection of two ordered lists of half-open intervals."""
    found: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            found.append((start, end))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return found


def merge(intervals: list[Interval]) -> list[Interval]:
    """Return the union of intervals as ordered, disjoint half-open intervals."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif start < end:
            found.append((start, end))
    return found


def _check_span(start: datetime, end: datetime) -> None:
    if start.tzinfo is None or end.tzinfo is None:
        raise RatingError("A time without a time zone cannot be priced; add an offset such as +00:00.")
    if end - start > _LONGEST:
        raise RatingError(f"A window of more than {_LONGEST.days} days cannot be priced; choose a shorter one.")
