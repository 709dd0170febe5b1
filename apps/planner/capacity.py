"""Computes when a candidate would finish if it were accepted now."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from uuid import UUID

from apps import figures
from apps.fleet.selectors import pools
from apps.planner.solver import Demand, Placed
from apps.pricing.limits import LONGEST_WINDOW, Window, limits_of
from apps.pricing.rating import PriceBookDocument
from apps.timetable.admission import Placement, Refusal
from apps.timetable.instants import MICROSECONDS, instant_of, seconds_between
from apps.timetable.selectors import Demand as Asked
from apps.timetable.selectors import Room


class Timetables:
    """The free time of every pool, read once for all candidates.

    `without` is a contract that accepting the plan would end; the contract's reservations count as free time.
    """

    def __init__(
        self, *, book: PriceBookDocument, klass: str, window: Window, now: datetime, without: UUID | None = None
    ) -> None:
        self.without = without
        self.book, self.price_class, self.now = book, book.price_class(klass), now
        self.windows = [window, Window(now, now + LONGEST_WINDOW)]
        self.pools = {pool.slug: pool for pool in pools()}
        self.rooms: dict[str, Room] = {}
        self.known: dict[Demand, Placed] = {}

    def __call__(self, demand: Demand) -> Placed:
        if demand not in self.known:
            self.known[demand] = self._placed(demand)
        return self.known[demand]

    def _placed(self, demand: Demand) -> Placed:
        refusals = []
        for window in self.windows:
            found = self._tried(demand, window)
            if isinstance(found, Placement):
                return Placed(seconds_between(self.now, instant_of(found.end)))
            refusals.append(found)
        return Placed(None, self._reason(demand, refusals[-1]))

    def _tried(self, demand: Demand, window: Window) -> Placement | Refusal:
        limits = limits_of(
            book=self.book, price_class=self.price_class, window=window, duration=demand.duration, now=self.now
        )
        if demand.pool not in self.rooms:
            longest = self.windows[-1]
            self.rooms[demand.pool] = Room(
                self.pools[demand.pool], longest.start, longest.end, now=self.now, without=self.without
            )
        return self.rooms[demand.pool].place(
            Asked(demand.duration, limits.not_before, limits.not_after, limits.allowed, demand.setup, demand.quantum)
        )

    def _reason(self, demand: Demand, refusal: Refusal) -> str:
        takes = figures.duration_format(demand.duration)
        start_within = self.price_class.start_within_minutes
        if start_within is not None:
            soon = figures.duration_format(Fraction(start_within * 60))
            return f"{demand.pool} is not free for {takes} within {soon}, the time in which this class must start."
        finish_within = self.price_class.finish_within_minutes
        reach = LONGEST_WINDOW if finish_within is None else min(LONGEST_WINDOW, timedelta(minutes=finish_within))
        ahead = figures.duration_format(Fraction(reach // timedelta(seconds=1)))
        if demand.quantum is None:
            longest = figures.duration_format(Fraction(refusal.largest, MICROSECONDS))
            return (
                f"The work needs {takes} on {demand.pool} in one window; the longest free time in the next {ahead} is "
                f"{longest}."
            )
        return (
            f"The work needs {takes} on {demand.pool}; the next {ahead} have room for at most {refusal.room:,} of its "
            "executions."
        )
