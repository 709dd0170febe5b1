"""Device time (window start + cycles / clock, in exact fractions), and how a job is cut into leases along it. Pure
functions.

Execution k of a run that begins at cycle c issues at c + k * interval and ends `latency` later. Executions of one
program follow each other in one pipeline, also across leases. A different program waits until the pipeline has drained
and is then loaded, because a device holds one program at a time. A host pool has no such clock: there, a cycle is a
nanosecond and the interval is a measured percentile.
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
    """The pace of a program: cycles of one execution, cycles between two executions, and cycles per second.

    `load` is the number of cycles for loading the program, if its contract reserved them.
    """

    latency: int
    interval: int
    clock_hz: int
    load: int = 0

    @property
    def setup(self) -> Fraction:
        """The seconds that a window needs beyond the intervals of its executions: the time for loading, and the time by
        which the latency of an execution exceeds the interval.
        """
        return Fraction(self.load + max(0, self.latency - self.interval), self.clock_hz)

    @property
    def each(self) -> Fraction:
        """The seconds from one execution to the next."""
        return Fraction(self.interval, self.clock_hz)

    def duration(self, count: int) -> Fraction:
        """The seconds of a window that fits exactly `count` executions."""
        return self.setup + count * self.each

    def span(self, count: int) -> int:
        """The cycles from the first issue to the last result of `count` executions."""
        return (count - 1) * self.interval + self.latency


@dataclass(frozen=True)
class Room:
    """The free part of a window: executions may issue from cycle `cursor` on and must end by cycle `cycles`."""

    window: str
    device: str
    start: datetime
    cycles: int
    cursor: int = 0

    def holds(self, pace: Pace) -> int:
        """Return the number of executions that fit."""
        left = self.cycles - self.cursor - pace.latency
        return 0 if left < 0 else left // pace.interval + 1


@dataclass(frozen=True)
class Cut:
    """A planned lease: `count` items from `first_item` on; the first one issues at `first_cycle` of the window."""

    window: str
    device: str
    first_item: int
    count: int
    first_cycle: int


def instant_at(start: datetime, cycles: int, clock_hz: int) -> datetime:
    """Return the instant `cycles` after `start`, rounded down to whole microseconds."""
    return start + (cycles * MICROSECONDS // clock_hz) * MICROSECOND


def seconds_at(start: datetime, cycles: int, clock_hz: int) -> Fraction:
    """Return the instant `cycles` after `start` as exact seconds since 1970, as the device's clock shows it."""
    return Fraction((start - EPOCH) // MICROSECOND, MICROSECONDS) + Fraction(cycles, clock_hz)


def cycles_between(start: datetime, end: datetime, clock_hz: int) -> int:
    """Return the number of whole cycles in [start, end)."""
    return max(0, (end - start) // MICROSECOND * clock_hz // MICROSECONDS)


def cursor_at(start: datetime, now: datetime, clock_hz: int) -> int:
    """Return the first cycle of a window from `start` that is not before `now`."""
    return max(0, -(-((now - start) // MICROSECOND) * clock_hz // MICROSECONDS))


def cursor_loaded(cursor: int, now: int, load: int, *, is_loaded: bool, is_known: bool) -> int:
    """Return the first cycle at which a program may issue in a window. Its leases end by the cycle `cursor`; `now` is
    the current cycle.

    `is_loaded`: this program was the last to run in the window. `is_known`: nothing has run in it yet and the contract
    has no other program, so loading begins with the window. Otherwise loading begins when the work is known and the
    device is free.
    """
    if is_loaded:
        return max(cursor, now)
    return max(load, now) if is_known else max(cursor, now) + load


def cut_leases(
    count: int, pace: Pace, rooms: Sequence[Room], *, block: int, first_item: int = 0
) -> tuple[list[Cut], int]:
    """Place `count` executions in the free rooms, in order, as leases of at most `block` executions.

    Returns the leases, and the number of executions that did not fit.
    """
    cuts: list[Cut] = []
    item, left = first_item, count
    for room in rooms:
        fitting = min(left, room.holds(pace))
        for size in _blocks(fitting, block):
            done = sum(cut.count for cut in cuts if cut.window == room.window)
            cuts.append(Cut(room.window, room.device, item, size, room.cursor + done * pace.interval))
            item += size
        left -= fitting
        if not left:
            break
    return cuts, left


def cursor_after(leases: Iterable[tuple[int, int, Pace, bool]]) -> int:
    """Return the first free cycle after the leases of one window, each given as (first cycle, count, pace, whether it
    runs the program that comes next).

    A program continues one interval after its own last issue; a different program waits for the last result.
    """
    cursor = 0
    for first_cycle, count, pace, is_same in leases:
        length = count * pace.interval if is_same else pace.span(count)
        cursor = max(cursor, first_cycle + length)
    return cursor


def _blocks(count: int, block: int) -> list[int]:
    """Divide `count` into pieces of at most `block` that are as equal as possible."""
    pieces = -(-count // block)
    return [count // pieces + (1 if index < count % pieces else 0) for index in range(pieces)]
