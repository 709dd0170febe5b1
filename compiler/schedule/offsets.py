"""Offsets that fit a capacity: an exact search within a counted number of steps.

The search places one buffer after the other, each as low as what is placed below it allows, in ascending order of
offset (canonical solutions: M. Moffitt, "MiniMalloc", ASPLOS 2023). A state is dropped when a section of time cannot hold
what is still to come: pairs that cannot lie one way round lie the other way, which moves lowest and highest places; and
per section the lowest places and sizes form a one-machine problem, whose bound must not pass the capacity. What no
buffer connects any more is searched apart, and states that failed are remembered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Vector = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

NOWHERE = 1 << 60
ROUNDS = 20  # of propagation per state; more find little
ORDERS = ("TWS", "TSW", "WTS", "TWA", "TAW", "WTA")
PATIENT = ("TWS", "WTS")
SHORT, LONG = 2_000, 30_000  # steps of one attempt
RESTARTS = 120


class Found(NamedTuple):
    """``offsets``: one per buffer, or None when nothing was found. ``steps``: buffers placed on the way."""

    offsets: list[int] | None
    steps: int


class _Spent(Exception):
    """The attempt's steps are used up."""


def search(sizes: list[int], live: Mask, weights: Vector, capacity: int, budget: int) -> Found:
    """Offsets below ``capacity`` so that no two buffers that are live in one section share a byte.

    ``live``: [sections, buffers]; ``weights``: the length of each section, for the order of attempts only. The attempts are
    the orders of placing above, then seeded disturbances of them, each with its share of ``budget`` steps.
    """
    problem = _Problem.of(sizes, live, weights, capacity)
    steps = 0
    for attempt, share in _attempts():
        if steps >= budget:
            break
        state = _Attempt(problem, problem.order(*attempt), min(share, budget - steps))
        with _deep(len(sizes)):
            offsets = state.run()
        steps += state.steps
        if offsets is not None:
            return Found([int(o) * problem.unit for o in offsets], steps)
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


def _attempts() -> list[tuple[tuple[str, int], int]]:
    plain = [((keys, 0), SHORT) for keys in ORDERS]
    disturbed = [((ORDERS[n % len(ORDERS)], n + 1), SHORT) for n in range(RESTARTS)]
    return [*plain, *(((keys, 0), LONG) for keys in PATIENT), *disturbed]


@dataclass(frozen=True)
class _Problem:
    """Sizes in units of their greatest common divisor; ``meets``: pairs that are live together."""

    unit: int
    capacity: int
    size: Vector
    live: Mask
    meets: Mask
    width: Vector

    @staticmethod
    def of(sizes: list[int], live: Mask, weights: Vector, capacity: int) -> _Problem:
        unit = int(np.gcd.reduce([*sizes, 0])) or 1
        width = weights @ live
        kept = _largest(live)
        count = kept.astype(np.float32)
        meets = (count.T @ count) > 0
        np.fill_diagonal(meets, False)  # noqa: FBT003
        size = np.array(sizes, np.int64) // unit
        return _Problem(unit, capacity // unit, size, kept, meets, width)

    def order(self, keys: str, seed: int) -> Vector:
        """Buffers from the first to try to the last: by total of the fullest section, width, size or area, disturbed."""
        total = (self.live * (self.live @ self.size)[:, None]).max(axis=0)
        by = {"T": total, "W": self.width, "S": self.size, "A": self.width * self.size}
        order = np.lexsort([-by[key] for key in reversed(keys)])
        if not seed:
            return order
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        noise = (np.arange(len(order)) * 2_654_435_761 + seed * 1_013_904_223) * 2_246_822_519 % (1 << 32) >> 16
        return np.lexsort([rank * (1 << 16) * 3 + noise * len(order)])


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


class _State(NamedTuple):
    """Buffers still to place: their numbers, the tops of what is placed below them, their highest places."""

    left: Vector
    base: Vector
    high: Vector


@dataclass
class _Attempt:
    problem: _Problem
    order: Vector
    budget: int
    steps: int = 0
    failed: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p, o = self.problem, self.order
        self.size, self.live, self.meets = p.size[o], p.live[:, o], p.meets[np.ix_(o, o)]
        self.result = np.zeros(len(o), np.int64)

    def run(self) -> Vector | None:
        n = len(self.order)
        start = _State(np.arange(n), np.zeros(n, np.int64), self.problem.capacity - self.size)
        try:
            if not self._solve(start, 0, -1):
                return None
        except _Spent:
            return None
        offsets = np.empty(n, np.int64)
        offsets[self.order] = self.result
        return offsets

    def _solve(self, state: _State, last: int, number: int) -> bool:
        """Place everything that is left at ``last`` or above, ``number`` being what was placed there."""
        if not len(state.left):
            return True
        meets = self.meets[np.ix_(state.left, state.left)]
        parts = _components(meets)
        if len(parts) > 1:
            return all(self._solve(_State(*(v[part] for v in state)), last, number) for part in parts)
        key = (state.left.tobytes(), state.base.tobytes())
        if self.failed.get(key, NOWHERE) <= last:
            return False
        bounds = self._bounds(state, meets, last)
        if bounds is not None and self._branch(state, bounds, last, number):
            return True
        self.failed[key] = last
        return False

    def _branch(self, state: _State, bounds: tuple[Vector, Vector], last: int, number: int) -> bool:
        """Try what can lie lowest next: nothing that leaves room for another buffer below it."""
        low, high = bounds
        left, base = state.left, state.base
        ceiling = int((low + self.size[left]).min())
        open_ = np.nonzero((base >= last) & (base == low) & (base < ceiling))[0]
        for k in open_[np.lexsort((open_, base[open_]))]:
            buffer, at = int(left[k]), int(base[k])
            if at == last and buffer < number:
                continue
            if self.steps == self.budget:
                raise _Spent
            self.steps += 1
            rest = np.delete(left, k)
            near = self.meets[buffer, rest]
            tops = np.where(near, at + self.size[buffer], 0)
            following = _State(rest, np.maximum(np.delete(base, k), tops), np.delete(high, k))
            if self._solve(following, at, buffer):
                self.result[buffer] = at
                return True
            if not near.any():  # nothing lies above it, so it is not the reason
                return False
        return False

    def _bounds(self, state: _State, meets: Mask, last: int) -> tuple[Vector, Vector] | None:
        """Lowest and highest places, or None when they show that nothing fits."""
        size = self.size[state.left]
        low, high = np.maximum(state.base, last), state.high
        resting = state.base < last  # it has to rest on something that is still to come
        for _ in range(ROUNDS):
            top = low + size
            if resting.any():
                low = np.where(resting, np.maximum(low, np.where(meets, top[:, None], NOWHERE).min(axis=0)), low)
                top = low + size
            above = (top[:, None] > high[None, :]) & meets  # row cannot lie below column, so it lies above
            if (above & above.T).any():
                return None
            raised = np.maximum(low, np.where(above, top[None, :], 0).max(axis=1))
            lowered = np.minimum(high, np.where(above, high[:, None], NOWHERE).min(axis=0) - size)
            if (raised > lowered).any():
                return None
            if (raised == low).all() and (lowered == high).all():
                break
            low, high = raised, lowered
        return (low, high) if self._fit(state.left, size, low, high) else None

    def _fit(self, left: Vector, size: Vector, low: Vector, high: Vector) -> bool:
        """One machine per section: from below in order of lowest places, from above in order of highest tops."""
        live = self.live[:, left]
        order = np.argsort(-low, kind="stable")
        rows = live[:, order]
        if (np.where(rows, np.cumsum(rows * size[order], axis=1) + low[order], 0) > self.problem.capacity).any():
            return False
        top = high + size
        order = np.argsort(top, kind="stable")
        rows = live[:, order]
        return not (np.where(rows, top[order] - np.cumsum(rows * size[order], axis=1), 0) < 0).any()


def _components(meets: Mask) -> list[Vector]:
    """Buffers that a chain of meeting buffers connects, the smaller groups first."""
    left = np.ones(len(meets), bool)
    parts = []
    while left.any():
        reached = np.zeros(len(meets), bool)
        reached[int(left.argmax())] = True
        count = 0
        while count != (count := int(reached.sum())):
            reached |= meets[reached].any(axis=0)
        parts.append(np.nonzero(reached)[0])
        left &= ~reached
    return sorted(parts, key=len)
