"""The capacity of a plan's fleet."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from math import ceil

from apps import figures
from apps.cli.planning.task import Stated
from apps.planner.solver import Candidate, Demand, Placed
from apps.pricing.windows import LONGEST_WINDOW, Window, limits_of
from apps.timetable.admission import Interval, Limits, Placement, Rated, Refusal, Work, place
from apps.timetable.instants import instant_of, micros_of, micros_of_seconds, seconds_between

ACTIVE = "active"
PIECES = 64  # maximum number of windows for one demand, as in the timetable


class Fleet:
    """Computes when a pool without reservations would finish the work.

    A pool does not fit if its devices cannot keep up with the peak.
    """

    def __init__(self, task: Stated) -> None:
        self.task, self.price_class = task, task.book.price_class(task.klass)
        self.windows = [task.window, Window(task.at, task.at + LONGEST_WINDOW)]
        self.known: dict[Demand, Placed] = {}

    def devices(self, pool: str) -> list[str]:
        return [name for name, state in self.task.fleet.pools[pool].devices.items() if state == ACTIVE]

    def busy(self, duration: Fraction) -> Fraction:
        """Return the number of devices that the work keeps busy at the peak or, if there is no peak, on average."""
        if self.task.volume.peak is not None:
            return duration / self.task.volume.items * self.task.volume.peak
        return duration / seconds_between(self.task.window.start, self.task.window.end)

    def headroom(self, candidate: Candidate) -> Fraction | None:
        """Return the free share of the pool's devices, which is negative if there are too few devices.

        Return None if the pool has no devices or the time is unknown.
        """
        count = len(self.devices(candidate.pool))
        if candidate.duration is None or not count:
            return None
        return 1 - self.busy(candidate.duration) / count

    def needed(self, candidate: Candidate) -> int | None:
        """Return the number of devices that the candidate needs; None if the time is unknown."""
        return None if candidate.duration is None else max(1, ceil(self.busy(candidate.duration)))

    def __call__(self, demand: Demand) -> Placed:
        if demand not in self.known:
            self.known[demand] = self._placed(demand)
        return self.known[demand]

    def _placed(self, demand: Demand) -> Placed:
        names = self.devices(demand.pool)
        if not names:
            return Placed(None, f"{demand.pool} has no active device.")
        busy = self.busy(demand.duration)
        if self.task.volume.peak is not None and busy > len(names):
            said = f"At peak load, the work needs {figures.fixed(busy, 2)} devices of {demand.pool}, but {len(names):,}"
            return Placed(None, f"{said} {'is' if len(names) == 1 else 'are'} active.")
        found: Placement | Refusal | None = None
        for window in self.windows:
            found = self._tried(demand, window, names)
            if isinstance(found, Placement):
                return Placed(seconds_between(self.task.at, instant_of(found.end)))
        assert isinstance(found, Refusal)
        takes = figures.duration_format(demand.duration)
        longest = figures.duration_format(Fraction(found.largest, 10**6))
        return Placed(
            None, f"The work needs {takes} on {demand.pool}; the longest free time on any one device is {longest}."
        )

    def _tried(self, demand: Demand, window: Window, names: list[str]) -> Placement | Refusal:
        limits = limits_of(
            book=self.task.book, price_class=self.price_class, window=window, duration=demand.duration, now=self.task.at
        )
        within = Limits(_micros(limits.not_before), _micros(limits.not_after), _allowed(limits.allowed))
        free = {name: [Interval(within.not_before, _micros(self.windows[-1].end))] for name in names}
        found = place(Work(1, micros_of_seconds(demand.duration)), free, within)
        if isinstance(found, Placement) or demand.quantum is None:
            return found
        count = max(1, ceil((demand.duration - demand.setup) / demand.quantum))
        work = Work(count, micros_of_seconds(demand.quantum), micros_of_seconds(demand.setup))
        return place(work, free, Limits(within.not_before, within.not_after, within.allowed, PIECES))


def _micros(instant: datetime) -> int:
    return micros_of(instant)


def _allowed(allowed: list[tuple[datetime, datetime]] | None) -> tuple[Rated, ...] | None:
    return None if allowed is None else tuple(Rated(micros_of(start), micros_of(end)) for start, end in allowed)
