"""Half-open intervals of whole microseconds, and set operations on them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """The half-open interval [start, end)."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union as disjoint, non-touching intervals in ascending order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if merged and start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, end))
        else:
            merged.append(Interval(start, end))
    return merged


def clip(intervals: Iterable[Interval], start: int, end: int) -> list[Interval]:
    """Return the parts of the intervals that lie inside [start, end)."""
    return merge(Interval(max(one.start, start), min(one.end, end)) for one in intervals)


def intersect(left: Iterable[Interval], right: Iterable[Interval]) -> list[Interval]:
    """Return the intersection of two sets of intervals."""
    first, second = merge(left), merge(right)
    found: list[Interval] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i].start, second[j].start), min(first[i].end, second[j].end)
        if start < end:
            found.append(Interval(start, end))
        if first[i].end <= second[j].end:
            i += 1
        else:
            j += 1
    return found


def free_between(busy: Iterable[Interval], start: int, end: int) -> list[Interval]:
    """Return the parts of [start, end) that `busy` does not cover."""
    free: list[Interval] = []
    at = start
    for one in merge(busy):
        if one.end <= start:
            continue
        if one.start >= end:
            break
        if one.start > at:
            free.append(Interval(at, one.start))
        at = max(at, one.end)
    if at < end:
        free.append(Interval(at, end))
    return free


def total(intervals: Sequence[Interval]) -> int:
    """Return the total length of the intervals. Overlaps count once."""
    return sum(one.length for one in merge(intervals))


def within(intervals: Sequence[Interval], start: int, end: int) -> Sequence[Interval]:
    """Return the intervals that overlap [start, end), unclipped. The intervals must be disjoint and ascending."""
    first = bisect_right(intervals, start, key=lambda one: one.end)
    return intervals[first : bisect_right(intervals, end - 1, lo=first, key=lambda one: one.start)]
