"""Computes device time in exact fractions and divides jobs into leases. Pure functions.

If a run begins at cycle c, execution k issues at c + k * interval and ends `latency` cycles later. Executions of one
program follow each other in one pipeline, also across leases. A different program is loaded only when the pipeline has
drained. On a host pool, a cycle is a nanosecond and the interval is a measured percentile.
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
    """The pace of a program: latency and interval in cycles, and the clock in cycles per second.

    `load` is the number of cycles reserved for loading the program; 0 if none are reserved.
    """

    latency: int
    interval: int
    clock_hz: int
    load: int = 0

    @property
    def setup(self) -> Fraction:
        """The seconds that a window needs in addition to one interval for each execution."""
        return Fraction(self.load + max(0, self.latency - self.interval), self.clock_hz)

    @property
    def each(self) -> Fraction:
        """The seconds between the starts of two consecutive executions."""
        return Fraction(self.interval, self.clock_hz)

    def duration(self, count: int) -> Fraction:
        """Return the length in seconds of a window that fits exactly `count` executions."""
        return self.setup + count * self.each

    def span(self, count: int) -> int:
        """Return the number of cycles from the first issue to the last result of `count` executions."""
        return (count - 1) * self.interval + self.latency


@dataclass(frozen=True)
class Room:
    """The free part of a window. Executions may issue from the cycle `cursor` and must end by the cycle `cycles`."""

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
    """A planned lease: `count` items, starting with `first_item`, which issues at the window's cycle `first_cycle`."""

    window: str
    device: str
    first_item: int
    count: int
    first_cycle: int


def instant_at(start: datetime, cycles: int, clock_hz: int) -> datetime:
    """Return the instant that is `cycles` after `start`, rounded down to whole microseconds."""
    return start + (cycles * MICROSECONDS // clock_hz) * MICROSECOND


def seconds_at(start: datetime, cycles: int, clock_hz: int) -> Fraction:
    """Return the instant that is `cycles` after `start`, as the exact number of seconds since 1970."""
    return Fraction((start - EPOCH) // MICROSECOND, MICROSECONDS) + Fraction(cycles, clock_hz)


def cycles_between(start: datetime, end: datetime, clock_hz: int) -> int:
    """Return the number of whole cycles in [start, end)."""
    return max(0, (end - start) // MICROSECOND * clock_hz // MICROSECONDS)


def cursor_at(start: datetime, now: datetime, clock_hz: int) -> int:
    """Return the first cycle at or after `now` in a window that starts at `start`."""
    return max(0, -(-((now - start) // MICROSECOND) * clock_hz // MICROSECONDS))


def cursor_loaded(cursor: int, now: int, load: int, *, is_loaded: bool, is_known: bool) -> int:
    """Return the first cycle at which a program may issue in a window.

    `cursor` is the first cycle after the window's leases. `now` is the current cycle. `is_loaded`: this program was the
    last to run in the window. `is_known`: the window has no leases and the contract has no other program.
    """
    if is_loaded:
        return max(cursor, now)
    return max(load, now) if is_known else max(cursor, now) + load


def cut_leases(
    count: int, pace: Pace, rooms: Sequence[Room], *, block: int, first_item: int = 0
) -> tuple[list[Cut], int]:
    """Place `count` executions in the free rooms, in order. A lease has at most `block` executions.

    Returns the leases and the number of executions that did not fit.
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
    """Return the first free cycle after the leases of one window.

    Each lease is given as (first cycle, count, pace, whether the lease runs the program that comes next).
    """
    cursor = 0
    for first_cycle, count, pace, is_same in leases:
        length = count * pace.interval if is_same else pace.span(count)
        cursor = max(cursor, first_cycle + length)
    return cursor


def _blocks(count: int, block: int) -> list[int]:
    pieces = -(-count // block)
    return [count // pieces + (1 if index < count % pieces else 0) for index in range(pieces)]
