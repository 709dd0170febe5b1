"""Choose the thresholds of cascades on the tuning items."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from apps.planner.solver.answers import Counts, Evaluated
from apps.registry.confidence import successes_needed


@lru_cache(maxsize=1000)
def needed_of(wanted: Fraction | None, there: int, error: Fraction) -> int | None:
    """Return the smallest number of right answers among `there` items that proves the accuracy `wanted`.

    Return None if there is no such number.
    """
    return None if wanted is None else successes_needed(wanted, there, error)


def choose_threshold(first: Evaluated, second: Evaluated, wanted: Fraction | None, error: Fraction) -> Decimal:
    """Return the lowest threshold that should reach the accuracy `wanted` on the test items.

    If no threshold does, or if `wanted` is None, return the threshold with the most right answers on the tuning items.
    """
    gains = (second.tuning.hits - first.tuning.hits)[first.order]
    right = first.tuning.correct + np.concatenate(([0], np.cumsum(gains)))  # by how many items fall back
    thresholds = np.unique(np.append(first.steps, first.ranks.of(Decimal(0))))
    right = right[np.searchsorted(first.ranks.tuning[first.order], thresholds)]
    enough = _enough(right, first, wanted, error)
    best = int(np.argmax(enough)) if enough.any() else int(np.argmax(right))
    return first.ranks.levels[int(thresholds[best])]


def _enough(right: Counts, model: Evaluated, wanted: Fraction | None, error: Fraction) -> np.ndarray:
    here, there = model.tuning.total, model.test.total
    needed = needed_of(wanted, there, error)
    return np.zeros(right.shape, dtype=bool) if needed is None else right * there // here >= needed


class Grid(NamedTuple):
    """The results of a cascade of three programs at every pair of threshold levels.

    `second` counts the items that reach the second program, by first threshold. `third` counts the items that reach the
    third program, and `right` the right answers, by first and second threshold.
    """

    levels: tuple[Counts, Counts]
    second: Counts
    third: Counts
    right: Counts


def grid_of(first: Evaluated, second: Evaluated, third: Evaluated) -> Grid:
    """Count the results of a cascade of three programs at every pair of threshold levels."""
    (low, row), (high, column) = first.grid, second.grid
    rows, columns = len(low), len(high)
    cell = row * (columns + 1) + column

    def summed(values: Counts) -> Counts:
        cells = np.bincount(cell, weights=values, minlength=(rows + 1) * (columns + 1)).reshape(rows + 1, columns + 1)
        found: Counts = np.rint(cells).astype(np.int64)
        return found

    hits = [model.tuning.hits for model in (first, second, third)]
    items, gained, more = summed(np.ones(len(cell), np.int64)), summed(hits[1] - hits[0]), summed(hits[2] - hits[1])
    reach, gain = (np.cumsum(one.sum(axis=1))[:rows] for one in (items, gained))
    beyond, again = (one.cumsum(axis=0).cumsum(axis=1)[:rows, :columns] for one in (items, more))
    return Grid((low, high), reach, beyond, first.tuning.correct + gain[:, None] + again)


def choose_thresholds(
    models: tuple[Evaluated, Evaluated, Evaluated],
    grid: Grid,
    costs: tuple[int, int],
    wanted: Fraction | None,
    error: Fraction,
) -> tuple[Decimal, Decimal] | None:
    """Return the cheapest pair of thresholds that should reach the accuracy `wanted` on the test items.

    If no pair does, or if `wanted` is None, return the pair with the most right answers on the tuning items. Return
    None if no pair sends items to both later models. `costs` are the costs of one execution of the second and of the
    third model.
    """
    first, second, _ = models
    sends = grid.third > 0
    enough = _enough(grid.right, first, wanted, error) & sends
    if not sends.any():
        return None
    if not enough.any():
        right = np.where(sends, grid.right, -1)
        enough = right == right.max()
    best: tuple[int, int, int] | None = None
    for row in np.flatnonzero(enough.any(axis=1)).tolist():
        column = int(np.argmax(enough[row]))  # the fewest items to the third of all that do
        cost = int(grid.second[row]) * costs[0] + int(grid.third[row, column]) * costs[1]
        if best is None or cost < best[0]:
            best = cost, row, column
    assert best is not None, "a row has an entry"
    return first.ranks.levels[int(grid.levels[0][best[1]])], second.ranks.levels[int(grid.levels[1][best[2]])]
