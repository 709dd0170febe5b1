"""Find the most valuable patterns of a device: a multi-dimensional knapsack, solved by branch and bound in integers.

A state is dropped if its Lagrangian bound is below the wanted value. Weights are rounded down, so the bound is never
too low. If more than `BEAM` states remain, only the most promising are kept. The returned bound includes the dropped
states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]
Real = npt.NDArray[np.float64]
GRID = 1 << 18  # the capacity in units of the grid for bounds
FINE = 12  # additional binary places of the multipliers
WORTH_MAX = 1 << 48  # above the value of any pattern, so that sums stay within 63 bits
BEAM = 20_000
CHILDREN = 2_000_000
MANY, SHARPER = 1_500, 6  # above so many states, better multipliers are computed, at most so often


@dataclass(frozen=True)
class Priced:
    """The patterns found, as (value, counts), the most valuable first. No pattern has a value above `bound`."""

    found: tuple[tuple[int, tuple[int, ...]], ...]
    bound: int


@dataclass(frozen=True)
class Knapsack:
    """The knapsack of a device type. A program of type t weighs `weights[t]` and fits at most `most[t]` times."""

    capacity: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    most: tuple[int, ...]

    def search(self, values: Sequence[int], *, above: int, keep: int = 8, beam: int = BEAM) -> Priced:
        """Return at most `keep` patterns with a value above `above`.

        Raises ValueError if the values are so large that their sum may exceed 63 bits.
        """
        if sum(max(value, 0) * most for value, most in zip(values, self.most, strict=True)) >= WORTH_MAX:
            raise ValueError("The values are too large: their sum exceeds 63 bits.")
        used = [t for t, value in enumerate(values) if value > 0 and self.most[t] > 0]
        if not used:
            return Priced((), max(above, 0))
        tree = _Tree(self, [values[t] for t in used], used)
        return tree.run(above=above, keep=keep, beam=beam)


@dataclass(frozen=True)
class _States:
    room: Whole
    value: Whole
    reach: Whole

    def at(self, index: Index) -> _States:
        return _States(self.room[index], self.value[index], self.reach[index])


class _Tree:
    def __init__(self, knapsack: Knapsack, values: list[int], used: list[int]) -> None:
        capacity = np.array(knapsack.capacity, dtype=np.int64)
        weights = np.array([knapsack.weights[t] for t in used], dtype=np.int64)
        most = np.array([knapsack.most[t] for t in used], dtype=np.int64)
        grid = np.array(
            [
                [w * GRID // c if c else 0 for w, c in zip(row, knapsack.capacity, strict=True)]
                for row in weights.tolist()
            ],
            dtype=np.int64,
        )
        worth = np.array(values, dtype=np.int64)
        multipliers = _multipliers(worth, grid, most)
        gain = (worth << FINE) - grid @ multipliers
        order = np.argsort(-(grid @ multipliers) - (grid.sum(axis=1) >> 8), kind="stable")
        self.used, self.types = [used[t] for t in order], len(knapsack.most)
        self.capacity, self.weights, self.most = capacity, weights[order], most[order]
        self.worth, self.gain = worth[order], gain[order]
        self.start = int(multipliers.sum()) * GRID
        positive = np.maximum(self.gain, 0) * self.most
        self.tail = np.append(np.cumsum(positive[::-1])[::-1], 0)  # an upper bound of what the types from t on add
        self.curves = [self._curves(t) for t in range(len(used) + 1)]

    def _curves(self, t: int) -> list[tuple[Real, Real]]:
        curves = []
        for dimension in range(len(self.capacity)):
            weight, worth = self.weights[t:, dimension].astype(float), self.worth[t:].astype(float)
            order = np.argsort(-worth / np.maximum(weight, 1e-6), kind="stable")
            most = self.most[t:][order].astype(float)
            free = float((worth * self.most[t:])[weight == 0].sum())
            heavy = weight[order] > 0
            xs = np.concatenate([[0.0], np.cumsum((weight[order] * most)[heavy])])
            ys = free + np.concatenate([[0.0], np.cumsum((worth[order] * most)[heavy])])
            curves.append((xs, ys))
        return curves

    def run(self, *, above: int, keep: int, beam: int) -> Priced:
        states = _States(self.capacity[None, :], np.zeros(1, dtype=np.int64), np.full(1, self.start, dtype=np.int64))
        trail: list[tuple[Index, Whole]] = []
        best, dropped = above, 0
        greedy: dict[tuple[int, ...], int] = {}
        for t in range(len(self.used)):
            best = max(best, self._greedy(states, t, trail, greedy, above))
            narrowed, cut = self._narrowed(states, t)
            parent, count = self._copies(states.room, t, narrowed)
            states, parent, count, bound = self._children(states, parent, count, t, max(best, above + 1))
            dropped = max(dropped, cut)
            if len(bound) > beam:
                ranked = np.argsort(-bound, kind="stable")
                dropped, stay = max(dropped, int(bound[ranked[beam]])), np.sort(ranked[:beam])
                states, parent, count = states.at(stay), parent[stay], count[stay]
            trail.append((parent, count))
        found = dict(self._collect(states.value, trail, above=above, keep=keep))
        for counts, worth in sorted(greedy.items(), key=lambda item: (-item[1], item[0]))[: max(0, keep - len(found))]:
            found.setdefault(counts, worth)
        in_order = tuple(sorted(((worth, counts) for counts, worth in found.items()), reverse=True))
        return Priced(in_order, max([above, dropped, *found.values()]))

    def _children(
        self, states: _States, parent: Index, count: Whole, t: int, asked: int
    ) -> tuple[_States, Index, Whole, Whole]:
        reach = states.reach[parent] + count * self.gain[t]
        alive = np.flatnonzero(reach + self.tail[t + 1] >= asked << FINE)
        parent, count = parent[alive], count[alive]
        room = states.room[parent] - count[:, None] * self.weights[t]
        children = _States(room, states.value[parent] + count * self.worth[t], reach[alive])
        bound = np.minimum((children.reach + self.tail[t + 1]) >> FINE, self._by_dimension(children, t + 1))
        for _ in range(SHARPER + 1):
            alive = np.flatnonzero(bound >= asked)
            children, parent, count, bound = children.at(alive), parent[alive], count[alive], bound[alive]
            if len(alive) <= MANY or t + 1 == len(self.used):
                break
            bound = np.minimum(bound, self._sharper(children, bound, t + 1))
        return children, parent, count, bound

    def _by_dimension(self, states: _States, t: int) -> Whole:
        # Floats are safe here, because the margin is far above the rounding errors.
        least = np.full(len(states.room), np.inf)
        for dimension, (room, worth) in enumerate(self.curves[t]):
            least = np.minimum(least, np.interp(states.room[:, dimension], room, worth))
        return states.value + np.asarray(np.minimum(least * (1 + 1e-9) + 1, 2.0**61), dtype=np.int64)

    def _sharper(self, states: _States, bound: Whole, t: int) -> Whole:
        weights, worth, most = self.weights[t:].astype(float), self.worth[t:].astype(float), self.most[t:].astype(float)
        scale = np.maximum(self.capacity, 1).astype(float)
        left = states.room[int(bound.argmax())] / scale
        multipliers = _prices(worth, weights / scale, most, left) / scale
        tail = float((np.maximum(worth - weights @ multipliers, 0.0) * most).sum())
        reach = (states.room @ multipliers + tail) * (1 + 1e-9) + 1
        return states.value + np.asarray(np.minimum(reach, 2.0**61), dtype=np.int64)

    def _fits(self, room: Whole, t: int) -> Whole:
        heavy = self.weights[t] > 0
        fits = np.full(len(room), self.most[t], dtype=np.int64)
        if heavy.any():
            fits = np.minimum(fits, (room[:, heavy] // self.weights[t][heavy]).min(axis=1))
        return fits

    def _narrowed(self, states: _States, t: int) -> tuple[Index, int]:
        children = self._fits(states.room, t) + 1
        if int(children.sum()) <= CHILDREN:
            return np.arange(len(children)), 0
        ranked = np.argsort(-states.reach, kind="stable")
        enough = max(1, int(np.searchsorted(np.cumsum(children[ranked]), CHILDREN)))
        cut = int(states.reach[ranked[enough]] + self.tail[t]) >> FINE if enough < len(ranked) else 0
        return np.sort(ranked[:enough]), cut

    def _copies(self, room: Whole, t: int, states: Index) -> tuple[Index, Whole]:
        fits = self._fits(room[states], t)
        begins = np.cumsum(fits + 1) - (fits + 1)
        parent = np.repeat(states, fits + 1)
        return parent, np.arange(len(parent), dtype=np.int64) - np.repeat(begins, fits + 1)

    def _greedy(
        self, states: _States, t: int, trail: list[tuple[Index, Whole]], known: dict[tuple[int, ...], int], above: int
    ) -> int:
        chosen = np.argsort(-states.reach, kind="stable")[:32]
        left, worth = states.room[chosen].copy(), states.value[chosen].copy()
        steps = []
        for following in range(t, len(self.used)):
            fits = self._fits(left, following)
            left -= fits[:, None] * self.weights[following]
            worth += fits * self.worth[following]
            steps.append(fits)
        if not len(worth):
            return 0
        at = int(worth.argmax())
        if worth[at] > above:
            counts, state = [0] * self.types, int(chosen[at])
            for later, fits in enumerate(steps, start=t):
                counts[self.used[later]] = int(fits[at])
            for earlier in range(t - 1, -1, -1):
                parent, count = trail[earlier]
                counts[self.used[earlier]], state = int(count[state]), int(parent[state])
            known[tuple(counts)] = int(worth[at])
        return int(worth[at])

    def _collect(
        self, value: Whole, trail: list[tuple[Index, Whole]], *, above: int, keep: int
    ) -> list[tuple[tuple[int, ...], int]]:
        order = np.argsort(-value, kind="stable")[:keep]
        order = order[value[order] > above]
        counts = np.zeros((len(order), self.types), dtype=np.int64)
        state = order
        for t in range(len(self.used) - 1, -1, -1):
            parent, count = trail[t]
            counts[:, self.used[t]] = count[state]
            state = parent[state]
        return [(tuple(row), int(value[at])) for at, row in zip(order, counts.tolist(), strict=True)]


def _multipliers(worth: Whole, grid: Whole, most: Whole) -> Whole:
    prices = _prices(worth.astype(float), grid / GRID, most.astype(float), np.ones(grid.shape[1]))
    return np.asarray(np.floor(prices / GRID * (1 << FINE)), dtype=np.int64)


def _prices(worth: Real, weights: Real, most: Real, room: Real) -> Real:
    # The primal problem: maximise worth x subject to weights x <= room, 0 <= x <= most.
    from scipy.optimize import linprog  # half a second that most processes never need

    solved = linprog(-worth, A_ub=weights.T, b_ub=room, bounds=np.stack([0 * most, most], axis=1), method="highs-ds")
    if solved.status != 0:
        return np.zeros(len(room))
    return np.asarray(np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0))
