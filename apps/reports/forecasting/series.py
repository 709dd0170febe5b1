"""Time series of demand: amounts in consecutive steps of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.float64]
HOUR = timedelta(hours=1)
LONGEST = 100_000  # steps: eleven years of hours


class SeriesError(ValueError):
    """Raised if a series cannot be used; the message names the place and the remedy."""


@dataclass(frozen=True, eq=False)
class Series:
    """A time series that starts at `start` (UTC). `values[i]` is the usage in [start + i * step, start + (i + 1) *
    step).
    """

    start: datetime
    step: timedelta
    values: Amounts

    def __post_init__(self) -> None:
        if self.start.utcoffset() is None:
            raise SeriesError("The start of the series has no time zone. State the start in UTC.")
        if self.values.ndim != 1 or not self.values.size:
            raise SeriesError("The series is empty. A series needs at least one step with an amount.")
        if self.values.size > LONGEST:
            raise SeriesError(
                f"The series has {self.values.size:,} steps; the maximum is {LONGEST:,}. Use longer steps."
            )
        wrong = np.flatnonzero(~np.isfinite(self.values) | (self.values < 0))
        if wrong.size:
            at, value = self.start + int(wrong[0]) * self.step, self.values[wrong[0]]
            fault = f"The step that starts at {at:%Y-%m-%d %H:%M} has the amount {value:g}."
            raise SeriesError(f"{fault} Write an amount of at least 0; write 0 if nothing was used.")

    @property
    def end(self) -> datetime:
        return self.start + len(self.values) * self.step

    def until(self, count: int) -> Series:
        """Return the first `count` steps of the series."""
        return Series(self.start, self.step, self.values[:count])

    def scaled(self, factor: float) -> Series:
        """Return the series multiplied by a factor."""
        return Series(self.start, self.step, self.values * factor)


def series_of_hours(amounts: dict[datetime, float], *, start: datetime, end: datetime) -> Series:
    """Return the hourly series over [start, end), with 0 for hours without an amount. `start` and `end` must be full
    hours in UTC.
    """
    hours = (end - start) // HOUR
    return Series(start, HOUR, np.array([amounts.get(start + n * HOUR, 0.0) for n in range(hours)], dtype=np.float64))


def series_of_events(micros: npt.NDArray[np.int64], counts: Amounts, *, step: timedelta) -> Series:
    """Sum events (microseconds since 1970, UTC) by step. Incomplete first and last steps are left out if at least three
    other steps remain.
    """
    width = step // timedelta(microseconds=1)
    places = micros // width
    first, last = int(places.min()), int(places.max())
    if last - first >= LONGEST:
        raise SeriesError(
            f"The events cover {last - first + 1:,} steps; the maximum is {LONGEST:,}. Use a shorter period."
        )
    sums = np.bincount((places - first).astype(np.int64), weights=counts, minlength=last - first + 1)
    if len(sums) >= 5:
        sums, first = sums[1:-1], first + 1
    start = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=first * width)
    return Series(start, step, sums.astype(np.float64))
