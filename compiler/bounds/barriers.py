"""Bodies between barriers: where each element of one value needs all of another, the work on both sides cannot overlap.

A value that is needed as a whole is complete after the work of all that surely goes into it (``Bodies.complete``); what
depends on it by its every element comes behind, with all of its work (``Bodies.remaining``). Both are the head and tail
bound of one machine (Carlier 1982), over a part of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush, heapreplace
from operator import add

import numpy as np

from compiler.bounds.interval import Prices, Table
from compiler.ir import Node

PAIRS = 128  # jobs of which all pairs of heads and tails are tried at once

Longs = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Bodies:
    """What operations have to pay, by their outputs: ``paid[p, i]`` at prices p, of which a cycle offers ``capacity[p]``."""

    number: Mapping[str, int]
    paid: Longs
    capacity: Sequence[int]

    @staticmethod
    def of(nodes: Sequence[Node], table: Table, mixtures: Sequence[Prices]) -> Bodies:
        """``nodes`` in the order of the table."""
        paid = np.array([table.paid(prices) for prices in mixtures], dtype=np.int64).reshape(len(mixtures), len(nodes))
        capacity = [max(1, table.capacity(prices)) for prices in mixtures]
        return Bodies({node.output: i for i, node in enumerate(nodes)}, paid, capacity)

    def least(self, spans: Mapping[str, tuple[int, int]]) -> int:
        """Cycles that operations take at least: by output, when each may begin, and how long something lasts behind it."""
        known = sorted((head, tail, self.number[name]) for name, (head, tail) in spans.items() if name in self.number)
        best = max((head + tail for head, tail, _ in known), default=0)
        known = [job for job in known if self._busy[job[2]]]
        if not known:
            return best
        heads, tails, places = zip(*known, strict=True)
        paid = self.paid[:, list(places)]
        together = paid.sum(axis=1) // self._cost
        around = heads[-1] + max(tails)
        longest = np.flatnonzero(together > best - around)
        if len(heads) <= PAIRS:
            return max(best, _all_pairs(heads, tails, paid[longest], self._cost[longest])) if len(longest) else best
        for mixture in sorted(longest.tolist(), key=lambda mixture: -int(together[mixture])):
            if around + int(together[mixture]) > best:
                best = max(best, one_machine(heads, tails, paid[mixture].tolist(), self.capacity[mixture]))
        return best

    @cached_property
    def _busy(self) -> list[bool]:
        """By operation, whether it pays anything."""
        return [bool(most) for most in self.paid.max(axis=0, initial=0)]

    @cached_property
    def _cost(self) -> Longs:
        return np.array(self.capacity, dtype=np.int64)


def _all_pairs(heads: Sequence[int], tails: Sequence[int], paid: Longs, capacity: Longs) -> int:
    """What ``one_machine`` answers, the largest over rows of ``paid``: for each pair of a least head and a least tail, with
    the sums of what has both."""
    head, tail = np.array(heads, dtype=np.int64), np.array(tails, dtype=np.int64)
    with_tail = paid[:, ::-1, None] * (tail[::-1, None] >= tail)  # the last head first
    works = with_tail.cumsum(axis=1)[:, ::-1]
    cycles = works + capacity[:, None, None] * (head[:, None] + tail)
    most = cycles.max(axis=(1, 2), where=works > 0, initial=0)
    return int((most // capacity).max())


def one_machine(heads: Sequence[int], tails: Sequence[int], works: Sequence[int], capacity: int) -> int:
    """The largest of head + work / capacity + tail over all sets of jobs, with the least head and tail of each set.

    ``heads`` ascend. It is what Jackson's preemptive schedule takes: always the job with the longest tail (Carlier 1982).
    """
    best = max(map(add, heads, tails), default=0) * capacity
    jobs = [(head * capacity, -tail, work) for head, tail, work in zip(heads, tails, works, strict=True) if work]
    waiting: list[tuple[int, int]] = []
    now = 0
    for at in range(len(jobs)):
        head, tail, work = jobs[at]
        now = max(now, head)
        heappush(waiting, (tail, work))
        until = jobs[at + 1][0] if at + 1 < len(jobs) else None
        while waiting and (until is None or now < until):
            tail, work = waiting[0]
            if until is not None and now + work > until:
                heapreplace(waiting, (tail, now + work - until))
                now = until
            else:
                heappop(waiting)
                now += work
                best = max(best, now - tail * capacity)
    return best // capacity
