"""First fit: find the placement that ends first at the cheapest possible tariff.

Work is `count` executions, one every `each` microseconds. A window with n executions is `setup + n * each` long,
rounded up to whole microseconds. An execution is never split.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from heapq import nlargest
from math import lcm
from typing import NamedTuple

from apps.timetable.admission.intervals import Interval, clip, free_between, intersect, within


@dataclass(frozen=True)
class Work:
    """The work to place. Times are in microseconds."""

    count: int
    each: Fraction
    setup: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.count < 1 or self.each <= 0 or self.setup < 0:
            raise ValueError("work has at least one execution, an interval above 0 and a setup of at least 0")

    def length(self, count: int) -> int:
        """Return the length, in whole microseconds, of a window with `count` executions."""
        return -int(-(self.setup + count * self.each) // 1)

    def capacity(self, length: int) -> int:
        """Return the number of executions that fit in a window of `length` microseconds."""
        parts, setup, each = self._whole
        return max(0, (length * parts - setup) // each)

    @cached_property
    def _whole(self) -> tuple[int, int, int]:
        # Whole numbers in units of 1/scale microsecond; fractions would be too slow for thousands of windows.
        parts = lcm(self.setup.denominator, self.each.denominator)
        return parts, int(self.setup * parts), int(self.each * parts)


class Rated(NamedTuple):
    """An interval in which the work may run, and its tariff rank. Rank 0 is the cheapest."""

    start: int
    end: int
    rank: int = 0


@dataclass(frozen=True)
class Limits:
    """The limits of a placement: at most `windows_max` windows inside [not_before, not_after) and `allowed`.

    An `allowed` of None allows all times.
    """

    not_before: int
    not_after: int
    allowed: tuple[Rated, ...] | None = None
    windows_max: int = 1

    def spans(self) -> list[list[Interval]]:
        """Return, for each tariff rank, the disjoint and ascending spans that have this rank or a cheaper one."""
        if self.allowed is None:
            return [clip([Interval(self.not_before, self.not_after)], self.not_before, self.not_after)]
        ranks = sorted({one.rank for one in self.allowed})
        return [
            clip(
                (Interval(one.start, one.end) for one in self.allowed if one.rank <= rank),
                self.not_before,
                self.not_after,
            )
            for rank in ranks
        ]


@dataclass(frozen=True)
class Piece:
    """One window: `count` executions on `device` in [start, end)."""

    device: str
    start: int
    end: int
    count: int


@dataclass(frozen=True)
class Placement:
    """A placement: its windows, ordered by start, and the most expensive tariff rank in use."""

    windows: tuple[Piece, ...]
    rank: int

    @property
    def end(self) -> int:
        return max(piece.end for piece in self.windows)


@dataclass(frozen=True)
class Refusal:
    """The figures that explain why the work does not fit.

    `needed`: the time that the work needs. `largest`: the largest free window. `free`: the total free time. `room`: the
    number of executions that would fit.
    """

    needed: int
    largest: int
    free: int
    room: int


class _Open(NamedTuple):
    device: str
    start: int
    end: int


def place(work: Work, free: Mapping[str, Sequence[Interval]], limits: Limits) -> Placement | Refusal:
    """Place all of `work` in the free time of the devices. If the work does not fit, return a refusal.

    The search finds a placement whenever one exists. The result has the lowest tariff rank, then the earliest end, then
    the earliest start.
    """
    ranks = sorted({one.rank for one in limits.allowed}) if limits.allowed is not None else [0]
    slots: list[_Open] = []
    for rank, spans in zip(ranks, limits.spans(), strict=True):
        slots = _slots(free, spans)
        end = _earliest_end(work, slots, limits)
        if end is not None:
            return Placement(_cut(work, slots, end, limits.windows_max), rank)
    lengths = [slot.end - slot.start for slot in slots]
    return Refusal(
        needed=work.length(work.count),
        largest=max(lengths, default=0),
        free=sum(lengths),
        room=min(work.count, _room(work, slots, limits.not_after, limits.windows_max)),
    )


def place_each(
    demands: Sequence[tuple[Sequence[Work], Sequence[Limits]]], free: Mapping[str, Sequence[Interval]]
) -> list[Placement | Refusal]:
    """Place the demands in order, each in the time that the earlier demands left free.

    Each demand lists alternatives for the same work, which are tried in order. After a refusal, no further demand is
    placed. The intervals of `free` must be disjoint and ascending.
    """
    left = {device: list(open_) for device, open_ in free.items()}
    found: list[Placement | Refusal] = []
    for works, limits in demands:
        for work, limit in zip(works, limits, strict=True):
            near = {device: within(open_, limit.not_before, limit.not_after) for device, open_ in left.items()}
            placed = place(work, near, limit)
            if isinstance(placed, Placement):
                break
        found.append(placed)
        if isinstance(placed, Refusal):
            break
        for piece in placed.windows:
            _cut_out(left[piece.device], piece)
    return found


def _cut_out(free: list[Interval], piece: Piece) -> None:
    at = bisect_right(free, piece.start, key=lambda one: one.end)
    whole = free[at]
    free[at : at + 1] = free_between([Interval(piece.start, piece.end)], whole.start, whole.end)


def _slots(free: Mapping[str, Sequence[Interval]], spans: Sequence[Interval]) -> list[_Open]:
    slots = [_Open(device, one.start, one.end) for device in free for one in intersect(free[device], spans)]
    return sorted(slots, key=lambda slot: (slot.start, slot.device))


def _capacities(work: Work, slots: list[_Open], end: int) -> list[int]:
    return [work.capacity(min(slot.end, end) - slot.start) for slot in slots]


def _room(work: Work, slots: list[_Open], end: int, windows_max: int) -> int:
    return sum(nlargest(windows_max, _capacities(work, slots, end)))


def _earliest_end(work: Work, slots: list[_Open], limits: Limits) -> int | None:
    # A later end never leaves less room, so bisection is possible.
    low, high = limits.not_before, limits.not_after
    if limits.windows_max == 1:
        length = work.length(work.count)
        return min((slot.start + length for slot in slots if slot.start + length <= slot.end), default=None)
    if high <= low or _room(work, slots, high, limits.windows_max) < work.count:
        return None
    while low < high:
        middle = (low + high) // 2
        if _room(work, slots, middle, limits.windows_max) >= work.count:
            high = middle
        else:
            low = middle + 1
    return low


def _cut(work: Work, slots: list[_Open], end: int, windows_max: int) -> tuple[Piece, ...]:
    capacities = _capacities(work, slots, end)
    by_size = sorted(range(len(slots)), key=lambda index: (-capacities[index], slots[index].start, slots[index].device))
    chosen: list[int] = []
    for index in by_size[:windows_max]:
        if sum(capacities[known] for known in chosen) >= work.count:
            break
        chosen.append(index)
    pieces = []
    left = work.count
    for index in sorted(chosen):
        count = min(left, capacities[index])
        if count == 0:
            break
        slot = slots[index]
        pieces.append(Piece(slot.device, slot.start, slot.start + work.length(count), count))
        left -= count
    return tuple(pieces)
