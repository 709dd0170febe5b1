"""The grid of start hours in a week, with prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from apps.figures import percent_format
from apps.pricing.grid import Grid, Hour
from apps.sales.start_times import StartTime


@dataclass(frozen=True)
class PricedHour:
    """One local hour and its cheapest start. `start` is None if no device time is free, or if the hour has already begun."""

    hour: Hour
    start: StartTime | None
    has_begun: bool

    @property
    def label(self) -> str:
        if self.hour.past:
            return "past"
        if self.has_begun:
            return "now"
        if self.start is None:
            return "full"
        if not self.start.saving:
            return "·"
        return f"{'-' if self.start.saving > 0 else '+'}{percent_format(abs(self.start.saving), 0)}"

    @property
    def tone(self) -> str:
        if self.start is None:
            return "hour-past"
        return "hour-off" if self.start.saving > 0 else "hour-peak"

    @property
    def pick(self) -> str:
        return "" if self.start is None else f"{self.start.hour.isoformat()}|{self.start.klass}"


@dataclass(frozen=True)
class PricedDay:
    """A local date with its hours."""

    date: date
    note: str
    columns: tuple[tuple[PricedHour, ...], ...]


@dataclass(frozen=True)
class PricedHours:
    """Seven days of priced hours."""

    zone: str
    utc_offset: str
    days: tuple[PricedDay, ...]


def priced_hours(grid: Grid, starts: Sequence[StartTime]) -> PricedHours | None:
    """Return the grid with prices; None if there are no start hours to choose from."""
    if not starts:
        return None
    by_hour = {start.hour: start for start in starts}
    first = min(by_hour)
    days = tuple(
        PricedDay(
            day.date, day.note, tuple(tuple(_priced(hour, by_hour, first) for hour in one) for one in day.columns)
        )
        for day in grid.days
    )
    return PricedHours(grid.zone, grid.utc_offset, days)


def _priced(hour: Hour, by_hour: dict[datetime, StartTime], first: datetime) -> PricedHour:
    return PricedHour(hour, by_hour.get(hour.start), has_begun=not hour.past and hour.start < first)
