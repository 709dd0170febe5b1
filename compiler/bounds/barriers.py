"""Bodies between barriers: where each element of one value needs all of another, the work on both sides cannot overlap.

A value that is needed as a whole is complete after the work of all that surely goes into it (``Bodies.complete``); what
depends on it by its every element comes behind, with all of its work (``Bodies.remaining``). Both are the head and tail
bound of one machine (Carlier 1982), over a part of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.bounds.interval import Prices, Table
from compiler.ir.graph import Node

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
        known = [(self.number[name], head, tail) for name, (head, tail) in spans.items() if name in self.number]
        if not known:
            return 0
        places, heads, tails = (np.array(column, dtype=np.int64) for column in zip(*known, strict=True))
        order = np.argsort(-tails, kind="stable")
        places, heads, tails = places[order], heads[order], tails[order]
        return max(
            over_pairs(heads, tails, paid[places], capacity)
            for paid, capacity in zip(self.paid, self.capacity, strict=True)
        )


def over_pairs(heads: Longs, tails: Longs, paid: Longs, capacity: int) -> int:
    """The largest of head + work / units + tail over all pairs of a head and a tail that occur; ``tails`` descend."""
    first = np.unique(heads)[:, None]
    inside = heads >= first
    totals = first + np.cumsum(np.where(inside, paid, 0), axis=1) // capacity + tails
    return int(totals[inside].max())
