"""The interval bound: no steady state is shorter than the busiest unit's share of the work.

Where an operation has several forms, the best split of all operations over their forms is a linear program. Its dual
gives a bound for any prices of the units' cycles: each operation pays for its cheapest form, and what all of them pay,
divided by what one cycle of all units costs, is a lower bound. So a search for good prices need not be exact, and whole
numbers make it the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.bounds.work import SCHEDULED, Work
from compiler.isa import Machine

SCALE = 1 << 10  # works are rounded down to this fraction of a cycle
ROUNDS, FINER = 4, 10  # of the search, and parts of a stretch in each
PRICE = 1 << 12

Prices = tuple[int, ...]  # of one cycle of one unit, in the order of SCHEDULED


@dataclass(frozen=True)
class Table:
    """``cost[i, f, u]``: scaled cycles of unit u in form f of operation i, forms repeated up to the largest number."""

    cost: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    instances: tuple[int, ...]

    @staticmethod
    def of(operations: Sequence[Sequence[Work]], machine: Machine) -> Table:
        widest = max((len(forms) for forms in operations), default=1)
        cost = np.zeros((len(operations), widest, len(SCHEDULED)), dtype=np.int64)
        for i, found in enumerate(operations):
            rows = [[int(work[unit] * SCALE) if unit in work else 0 for unit in SCHEDULED] for work in found]
            cost[i] = [rows[f % len(rows)] for f in range(widest)]
        return Table(cost, tuple(machine.unit(unit).instances for unit in SCHEDULED))

    def paid(self, prices: Prices) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """What each operation pays at least."""
        return np.asarray((self.cost * np.array(prices, dtype=np.int64)).sum(axis=2).min(axis=1), dtype=np.int64)

    def capacity(self, prices: Prices) -> int:
        """What one cycle of all units costs, in the scale of ``paid``."""
        return SCALE * sum(n * p for n, p in zip(self.instances, prices, strict=True))

    def bound(self, prices: Prices) -> int:
        """Cycles that the operations need at these prices, rounded down."""
        return int(self.paid(prices).sum()) // max(1, self.capacity(prices))


def corner(unit: str) -> Prices:
    return tuple(PRICE if name == unit else 0 for name in SCHEDULED)


def best_prices(table: Table) -> Prices:
    """Prices with a large bound: the best corner, or the best mixture of planes, one port and vector units."""
    found = [corner(unit) for unit in SCHEDULED]
    if table.cost.shape[1] > 1:
        found += [_search(table, port) for port in ("weights", "external") if table.instances[SCHEDULED.index(port)]]
    return found[int(np.argmax(_ratios(table, found)))]


def _ratios(table: Table, prices: Sequence[Prices]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The bound at each of many prices, in ``1 / SCALE`` cycles."""
    count, forms, units = table.cost.shape
    rates = np.array(prices, dtype=np.int64)
    paid = (
        (table.cost.reshape(count * forms, units) @ rates.T).reshape(count, forms, len(prices)).min(axis=1).sum(axis=0)
    )
    capacity = np.maximum(1, rates @ np.array(table.instances, dtype=np.int64))
    return np.asarray(paid // capacity, dtype=np.int64)


def _search(table: Table, port: str) -> Prices:
    """The shares of vector units and of one port, first of all sizes, then finer around the best; the bound is a concave
    function of the prices, so nothing better lies elsewhere."""

    def prices(vector: int, load: int) -> Prices:
        plane = PRICE - vector
        parts = {"matrix": (plane * (PRICE - load)) // PRICE, port: plane * load // PRICE, "vector": vector}
        return tuple(parts.get(unit, 0) for unit in SCHEDULED)

    vectors = loads = _ALL_SIZES
    best = (0, 0)
    for _ in range(ROUNDS):
        pairs = [(v, w) for v in vectors for w in loads]
        best = pairs[int(np.argmax(_ratios(table, [prices(*pair) for pair in pairs])))]
        vectors, loads = _around(vectors, best[0]), _around(loads, best[1])
    return prices(*best)


_ALL_SIZES = sorted({0, *(1 << k for k in range(13)), *(PRICE - (1 << k) for k in range(12)), *range(512, PRICE, 512)})


def _around(sizes: Sequence[int], best: int) -> list[int]:
    """About a dozen sizes between the neighbours of the best."""
    at = sizes.index(best)
    low, high = sizes[max(0, at - 1)], sizes[min(len(sizes) - 1, at + 1)]
    return sorted({best, *(low + (high - low) * k // FINER for k in range(FINER + 1))})
