"""The interval bound: no steady state is shorter than the busiest unit's share of the work.

Where an operation has several forms, the best split of all operations over their forms is a linear program. Its dual
gives a bound for any prices of the units' cycles: each operation pays for its cheapest form, and what all of them pay,
divided by what one cycle of all units costs, is a lower bound. So a search for good prices need not be exact, and whole
numbers make it the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.bounds.work import SCHEDULED, Work
from compiler.isa.machine import Machine

SCALE = 1 << 10  # works are rounded down to this fraction of a cycle
STEPS = 24  # of each nested search
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
            for f in range(widest):
                work = found[f % len(found)]
                cost[i, f] = [int(work.get(unit, 0) * SCALE) for unit in SCHEDULED]
        return Table(cost, tuple(machine.unit(unit).instances for unit in SCHEDULED))

    def paid(self, prices: Prices) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """What each operation pays at least."""
        paid: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = (self.cost * np.array(prices, dtype=np.int64)).sum(
            axis=2
        )
        return np.asarray(paid.min(axis=1), dtype=np.int64)

    def capacity(self, prices: Prices) -> int:
        """What one cycle of all units costs, in the scale of ``paid``."""
        return SCALE * sum(n * p for n, p in zip(self.instances, prices, strict=True))

    def bound(self, prices: Prices) -> int:
        """Cycles that the operations need at these prices, rounded down."""
        return int(self.paid(prices).sum()) // max(1, self.capacity(prices))


def corner(unit: str) -> Prices:
    return tuple(PRICE if name == unit else 0 for name in SCHEDULED)


def best_prices(table: Table) -> Prices:
    """Prices with a large bound: the best corner, or the best mixture of planes, weight ports and vector units."""
    mixed = [_search(table, port) for port in ("weights", "external") if table.instances[SCHEDULED.index(port)]]
    return max([*mixed, *(corner(unit) for unit in SCHEDULED)], key=lambda prices: _ratio(table, prices))


def _ratio(table: Table, prices: Prices) -> int:
    return int(table.paid(prices).sum()) * PRICE // max(1, table.capacity(prices))


def _search(table: Table, port: str) -> Prices:
    """Nested search over two shares, of vector units and of one port; the bound is a concave function of the prices, so
    the interval may shrink."""

    def prices(vector: int, weights: int) -> Prices:
        plane = PRICE - vector
        parts = {"matrix": (plane * (PRICE - weights)) // PRICE, port: plane * weights // PRICE, "vector": vector}
        return tuple(parts.get(unit, 0) for unit in SCHEDULED)

    def inner(vector: int) -> tuple[int, int]:
        return _peak(lambda weights: _ratio(table, prices(vector, weights)))

    vector = _peak(lambda v: inner(v)[1])[0]
    return prices(vector, inner(vector)[0])


def _peak(value: Callable[[int], int]) -> tuple[int, int]:
    """Place and height of the largest value over [0, PRICE] by ternary search."""
    low, high = 0, PRICE
    for _ in range(STEPS):
        if high - low < 3:
            break
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if value(left) < value(right):
            low = left
        else:
            high = right
    best = max(range(low, high + 1), key=lambda x: (value(x), -x))
    return best, value(best)
