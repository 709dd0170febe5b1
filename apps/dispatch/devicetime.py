"""Device time: window start + cycles / clock, in exact fractions; and cutting a job into leases along it. Pure.

Execution k of a run that begins at cycle c issues at c + k * interval and ends `latency` later. Executions of one
program follow each other in one pipeline, also across leases; another program waits until the pipeline has drained, and is
loaded then: a device holds one program at a time.
A host pool has no such clock: there a cycle is a nanosecond and the interval a measured percentile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Pace:
    """How fast a program runs: cycles of one execution, cycles between two, cycles per second; and the cycles until it is on
    the device, as far as its contract reserved them."""

    latency: int
    interval: int
    clock_hz: int
    load: int = 0

    @property
    def setup(self) -> Fraction:
        """Seconds by which a window must be longer than its executions' intervals: the load, and what the first takes longer."""
        return Fraction(self.load + max(0, self.latency - self.interval), self.clock_hz)

    @property
    def each(self) -> Fraction:
        """Seconds between two executions."""
        return Fraction(self.interval, self.clock_hz)

    def duration(self, count: int) -> Fraction:
        """Seconds of a window that holds `count` executions."""
        return self.setup + count * self.each

    def span(self, count: int) -> int:
        """Cycles from the first issue to the last result."""
        return (count - 1) * self.interval + self.latency


@dataclass(frozen=True)
class Room:
    """A window, or what is left of it: executions may issue from cycle `cursor` on and must end by cycle `cycles`."""

    window: str
    device: str
    start: datetime
    cycles: int
    cursor: int = 0

    def holds(self, pace: Pace) -> int:
        """How many executions fit."""
        left = self.cycles - self.cursor - pace.latency
        return 0 if left < 0 else left // pace.interval + 1


@dataclass(frozen=True)
class Cut:
    """One lease to be: `count` items from `first_item` on, the first of which issues at `first_cycle` of the window."""

    window: str
    device: str
    first_item: int
    count: int
    first_cycle: int


def instant_at(start: datetime, cycles: int, clock_hz: int) -> datetime:
    """The instant `cycles` after `start`, rounded down to the whole microseconds that a datetime has."""
    return start + (cycles * MICROSECONDS // clock_hz) * MICROSECOND


def seconds_at(start: datetime, cycles: int, clock_hz: int) -> Fraction:
    """The same instant as exact seconds since 1970: what the device's clock shows."""
    return Fraction((start - EPOCH) // MICROSECOND, MICROSECONDS) + Fraction(cycles, clock_hz)


def cycles_between(start: datetime, end: datetime, clock_hz: int) -> int:
    """Whole cycles that fit in [start, end); 0 when there are none."""
    return max(0, (end - start) // MICROSECOND * clock_hz // MICROSECONDS)


def cursor_at(start: datetime, now: datetime, clock_hz: int) -> int:
    """The first cycle of a window from `start` that does not lie before `now`."""
    return max(0, -(-((now - start) // MICROSECOND) * clock_hz // MICROSECONDS))


def cursor_loaded(cursor: int, now: int, load: int, *, is_loaded: bool, is_known: bool) -> int:
    """The first cycle from which a program may issue in a window whose leases so far end by `cursor`, at cycle `now` of it.

    `is_loaded`: it is the program that was there last. `is_known`: nothing was there, and it is the only one of its contract,
    so its load begins with the window; any other load begins when the work is known and the device is free.
    """
    if is_loaded:
        return max(cursor, now)
    return max(load, now) if is_known else max(cursor, now) + load


def cut_leases(
    count: int, pace: Pace, rooms: Sequence[Room], *, block: int, first_item: int = 0
) -> tuple[list[Cut], int]:
    """Lays `count` executions into the rooms in their order, in leases of at most `block`.

    Returns the leases and how many executions found no room.
    """
    cuts: list[Cut] = []
    item, left = first_item, count
    for room in rooms:
        take = min(left, room.holds(pace))
        for size in _blocks(take, block):
            done = sum(cut.count for cut in cuts if cut.window == room.window)
            cuts.append(Cut(room.window, room.device, item, size, room.cursor + done * pace.interval))
            item += size
        left -= take
        if not left:
            break
    return cuts, left


def cursor_after(leases: Iterable[tuple[int, int, Pace, bool]]) -> int:
    """The first free cycle behind leases of one window, each (first cycle, count, pace, is the same program).

    The same program goes on one interval after its last issue; another one waits for the last result.
    """
    cursor = 0
    for first_cycle, count, pace, is_same in leases:
        behind = count * pace.interval if is_same else pace.span(count)
        cursor = max(cursor, first_cycle + behind)
    return cursor


def _blocks(count: int, block: int) -> list[int]:
    """`count` in pieces of at most `block`, as equal as whole numbers allow."""
    pieces = -(-count // block)
    return [count // pieces + (1 if index < count % pieces else 0) for index in range(pieces)]
