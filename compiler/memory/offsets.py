"""Offsets that fit a capacity: an exact search within a counted number of steps.

The search places one buffer after the other in ascending order of offset, each as low as what lies below it allows
(canonical solutions: M. Moffitt, "MiniMalloc", ASPLOS 2023). Never may room stay free in which another buffer could lie
whole. A state is dropped when the lowest place that is left in a section and the sizes still to come there pass the
capacity; all that can come next is judged at once. Sections that no buffer connects any more are searched apart, each in an
order of its own. Several orders take turns with growing numbers of steps, as no single order finds everything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.int64]]
Small = np.ndarray[Any, np.dtype[Any]]  # of the narrowest whole numbers that hold three capacities
Mask = np.ndarray[Any, np.dtype[np.bool_]]

ORDERS = ("TWA", "TAW", "WAT")  # descending total of the fullest section, width, area; in the order of their turns
FIRST, GROWTH = 512, 4  # steps of the first turns (twice the buffers if that is more), and growth from round to round
TOGETHER = 1 << 21  # numbers in one table of what can come next


class Found(NamedTuple):
    """``offsets``: one per buffer, or None when nothing was found; ``steps``: states looked at on the way.

    ``proved``: there is nothing, every state has been ruled out.
    """

    offsets: list[int] | None
    steps: int
    proved: bool = False


class _Spent(Exception):
    """The turn's steps are used up."""


def search(sizes: list[int], live: Mask, weights: Vector, capacity: int, budget: int) -> Found:
    """Offsets below ``capacity`` so that no two buffers that are live in one section share a byte.

    ``live``: [sections, buffers]; ``weights``: the length of each section, for the order of attempts only.
    """
    if int((live @ np.array(sizes, np.int64)).max(initial=0)) > capacity:
        return Found(None, 0, proved=True)
    problem = _Problem.of(sizes, live, weights, capacity)
    steps, share = 0, max(FIRST, 2 * len(sizes))
    while steps < budget:
        for keys in ORDERS:
            turn = _Turn(problem, keys, min(share, budget - steps))
            with _deep(len(sizes)):
                offsets = turn.run()
            steps += turn.steps
            if offsets is not None or not turn.spent:
                return Found(offsets, steps, proved=offsets is None)
        share *= GROWTH
    return Found(None, steps)


@contextmanager
def _deep(levels: int) -> Iterator[None]:
    """Room for a search that is as deep as there are buffers."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 4 * levels)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@dataclass(frozen=True)
class _Problem:
    """Sizes in units of their greatest common divisor, buffers by sections; ``far`` is beyond every place.

    ``first`` and ``last``: the sections between which a buffer is live; ``cross``: it connects a section and the next.
    """

    unit: int
    capacity: int
    size: Small
    live: Small
    meets: Small
    cross: Mask
    first: Vector
    last: Vector
    width: Vector

    @staticmethod
    def of(sizes: list[int], live: Mask, weights: Vector, capacity: int) -> _Problem:
        unit = int(np.gcd.reduce([*sizes, 0])) or 1
        top = capacity // unit
        kind = next(k for k in (np.int16, np.int32, np.int64) if 3 * top + 1 <= np.iinfo(k).max)
        rows = _largest(live).T
        count = rows.astype(np.float32)
        meets = (count @ count.T) > 0
        np.fill_diagonal(meets, val=False)
        first, last = rows.argmax(axis=1), rows.shape[1] - 1 - rows[:, ::-1].argmax(axis=1)
        edges = np.arange(rows.shape[1] - 1)
        return _Problem(
            unit,
            top,
            (np.array(sizes, np.int64) // unit).astype(kind),
            rows.astype(kind),
            np.negative(meets.astype(kind)),  # every bit, so that it masks
            (first[:, None] <= edges) & (edges < last[:, None]),
            first,
            last,
            np.array(weights @ live, np.int64),
        )

    @property
    def far(self) -> int:
        return 2 * self.capacity + 1

    def order(self, numbers: Vector, total: Small, live: Small, keys: str) -> Vector:
        """``numbers`` from the first to try to the last, by what is still to be placed in the sections."""
        width = self.width[numbers]
        by = {"T": (live * total).max(axis=1), "W": width, "A": width * self.size[numbers]}
        return np.lexsort([numbers, *(-by[key] for key in reversed(keys))])


def _largest(live: Mask) -> Mask:
    """Sections whose buffers are not all live in a neighbouring section too."""
    kept: list[Mask] = []
    for row in live:
        if kept and not (row & ~kept[-1]).any():
            continue
        while kept and not (kept[-1] & ~row).any():
            kept.pop()
        if row.any():
            kept.append(row)
    return np.array(kept)


class _Part:
    """Buffers that are searched together, in the order to try them, and the sections from ``start`` to ``end``.

    ``absent``: [buffers, sections], far where a buffer is not live.
    """

    __slots__ = ("absent", "cross", "end", "live", "meets", "number", "size", "start")

    def __init__(self, problem: _Problem, numbers: Vector, bounds: tuple[int, int], total: Small, keys: str) -> None:
        self.start, self.end = bounds
        live = problem.live[numbers, self.start : self.end]
        order = problem.order(numbers, total, live, keys)
        self.number = numbers[order]
        self.live = live[order]
        self.size = problem.size[self.number]
        self.absent = (1 - self.live) * self.live.dtype.type(problem.far)
        self.meets = problem.meets[np.ix_(self.number, self.number)]
        self.cross = problem.cross[self.number, self.start : self.end - 1].astype(np.int32)


class _State(NamedTuple):
    """Lowest place of each buffer of a part (far: placed); sizes to come per section; buffers left across each border.

    ``last`` and ``rank``: where the last buffer was placed, and its place in the order.
    """

    low: Small
    total: Small
    across: Vector
    left: int
    last: int
    rank: int


class _Turn:
    """One order's search with a number of steps; ``spent``: they did not suffice."""

    def __init__(self, problem: _Problem, keys: str, budget: int) -> None:
        self.problem, self.keys, self.budget = problem, keys, budget
        self.steps = 0
        self.spent = False
        self.result = np.zeros(len(problem.size), np.int64)

    def run(self) -> list[int] | None:
        p = self.problem
        everything = np.arange(len(p.size))
        total = p.size @ p.live
        try:
            found = self._parts(everything, np.zeros_like(p.size), total, (0, p.live.shape[1]), 0)
        except _Spent:
            self.spent = True
            return None
        return [int(o) * p.unit for o in self.result] if found else None

    def _parts(self, numbers: Vector, low: Small, total: Small, bounds: tuple[int, int], last: int) -> bool:
        """Search what no buffer connects apart: ``low`` per number, ``total`` per section of ``bounds``."""
        p, start = self.problem, bounds[0]
        apart = ~p.cross[numbers, start : bounds[1] - 1].any(axis=0)
        lowest = np.zeros_like(p.size)
        lowest[numbers] = low
        for a, b in pairwise((start, *(np.nonzero(apart)[0] + start + 1).tolist(), bounds[1])):
            inside = numbers[(p.first[numbers] >= a) & (p.last[numbers] < b)]
            if not len(inside):
                continue
            sums = total[a - start : b - start]
            part = _Part(p, inside, (a, b), sums, self.keys)
            state = _State(lowest[part.number], sums, part.cross.sum(axis=0), len(inside), last, -1)
            if not self._place(part, state):
                return False
        return True

    def _place(self, part: _Part, state: _State) -> bool:
        """Place everything that is left at ``state.last`` or above."""
        if not state.left:
            return True
        if self.steps == self.budget:
            raise _Spent
        self.steps += 1
        next_ = self._next(part, state)
        together = max(1, TOGETHER // part.absent.size)
        for n in range(0, len(next_), together):
            chosen = next_[n : n + together]
            low, rest, fits = self._judged(part, state, chosen)
            for k in np.nonzero(fits)[0].tolist():
                number, at = int(chosen[k]), int(state.low[chosen[k]])
                following = _State(low[k], rest[k], state.across - part.cross[number], state.left - 1, at, number)
                if self._follow(part, following):
                    self.result[part.number[number]] = at
                    return True
                if not (rest[k] * part.live[number]).any():  # nothing can lie above it, so it is not the reason
                    return False
        return False

    def _next(self, part: _Part, state: _State) -> Vector:
        """What can lie lowest: nothing that leaves room for another buffer below it, nor fills a section too late."""
        low = state.low
        ceiling = min(int((low + part.size).min()), self.problem.capacity - int(state.total.max()) + 1)
        chosen = np.nonzero((low >= state.last) & (low < ceiling))[0]
        at = low[chosen]
        later = (at > state.last) | (chosen > state.rank)
        return chosen[later][np.argsort(at[later], kind="stable")]

    def _judged(self, part: _Part, state: _State, chosen: Vector) -> tuple[Small, Small, Mask]:
        """Lowest places and sizes to come after each of ``chosen``, and whether every section can still hold them."""
        at = state.low[chosen]
        size = part.size[chosen]
        low = np.maximum(part.meets[chosen] & (at + size)[:, None], state.low)
        low[np.arange(len(chosen)), chosen] = self.problem.far
        rest = state.total - part.live[chosen] * size[:, None]
        floor = np.maximum(low[:, :, None], part.absent).min(axis=1)
        over = np.maximum(floor, at[:, None]) + rest > self.problem.capacity
        return low, rest, ~(over & (rest > 0)).any(axis=1)

    def _follow(self, part: _Part, state: _State) -> bool:
        """The rest of a part, in parts when what was placed last was the only one across a border."""
        crossed = part.cross[state.rank] > 0
        if not state.left or state.across[crossed].all():
            return self._place(part, state)
        left = state.low < self.problem.far
        return self._parts(part.number[left], state.low[left], state.total, (part.start, part.end), state.last)
