"""The tariff as a grid of days and hours in the customer's time zone, with UTC beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from apps.pricing.rating import PriceBookDocument
from apps.pricing.rating.tariff import zone_of

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Hour:
    """A local hour, [start, end) in UTC. All, part or none of the hour is off-peak."""

    start: datetime
    end: datetime
    local: datetime
    off_peak: bool
    partly: bool
    past: bool

    @property
    def period(self) -> str:
        return "off-peak" if self.off_peak else "partly off-peak" if self.partly else "peak"


@dataclass(frozen=True)
class Day:
    """A local date with 24 columns of hours.

    When the clock changes, a column is empty for a skipped hour, and holds two hours for a repeated hour.
    """

    date: date
    columns: tuple[tuple[Hour, ...], ...]
    note: str


@dataclass(frozen=True)
class Grid:
    """The days of the grid and their time zones."""

    zone: str
    tariff_zone: str
    days: tuple[Day, ...]
    utc_offset: str


def tariff_grid(*, book: PriceBookDocument, zone: str, now: datetime, days: int = 7) -> Grid:
    """Return the grid of the next `days` local days, starting today. Raises RatingError for an unknown time zone."""
    tz = zone_of(zone)
    today = now.astimezone(tz).date()
    rows = [_day(book, today + timedelta(days=number), zone, now) for number in range(days)]
    return Grid(zone=zone, tariff_zone=book.tariff.zone, days=tuple(rows), utc_offset=_offset(now.astimezone(tz)))


def _day(book: PriceBookDocument, day: date, zone: str, now: datetime) -> Day:
    tz = zone_of(zone)
    start = datetime.combine(day, time(), tz).astimezone(UTC)
    end = datetime.combine(day + timedelta(days=1), time(), tz).astimezone(UTC)
    columns: list[list[Hour]] = [[] for _ in range(24)]
    left = start
    while left < end:
        local = left.astimezone(tz)
        right = min(left + _HOUR - timedelta(minutes=local.minute), end)
        off = book.tariff.intervals(left, right)
        whole = off == [(left, right)]
        columns[local.hour].append(
            Hour(left, right, local, off_peak=whole, partly=bool(off) and not whole, past=right <= now)
        )
        left = right
    return Day(day, tuple(tuple(column) for column in columns), _note(start, end, zone))


def _note(start: datetime, end: datetime, zone: str) -> str:
    hours = (end - start) / _HOUR
    if hours == 24:
        return ""
    return f"clocks change in {zone}: this day has {hours:g} hours"


def _offset(local: datetime) -> str:
    text = local.strftime("%z")
    return f"UTC{text[:3]}:{text[3:5]}"
