"""The modulo reservation table of a whole program: what its instructions use and when, and how often it may begin anew.

Inferences that begin every k cycles are free of conflicts when no resource is in use by two of them at once. Source: B. R.
Rau, "Iterative modulo scheduling", 1996; here the schedule is given and only k is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from compiler.simulator.forms import Array

_PAIRS = 1 << 18  # pairs of uses of one resource that are compared
_LOOKED_AT = 32  # resources in conflict whose uses are compared at once


class Uses(NamedTuple):
    """By use of a resource its number and the cycles [``begin``, ``end``), counted from the start of the inference."""

    resource: Array
    begin: Array
    end: Array


class Conflict(NamedTuple):
    """A resource that two inferences would use at once; ``arena``: it is a memory line of an arena."""

    resource: int
    arena: bool


@dataclass
class Reservations:
    """What one inference uses. ``fixed``: resources that all inferences share; ``moving``: lines of the first arena, which
    only every ``copies``-th inference uses. ``least``: cycles between inferences that states ask for. ``span``: latency.
    """

    fixed: Uses
    moving: Uses
    copies: int
    least: int
    span: int
    _groups: tuple[tuple[Uses, int], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._groups = (self.fixed, 1), (self.moving, self.copies)

    def conflict(self, interval: int) -> Conflict | None:
        """A resource that inferences would share if one began every ``interval`` cycles; None when there is none."""
        for uses, copies in self._groups:
            found = _conflicts(uses, interval * copies)
            if found.size:
                return Conflict(int(found[0]), uses is self.moving)
        return None

    def shorter(self, interval: int) -> int | None:
        """The smallest legal interval that is shorter than ``interval``; None when there is none."""
        low = max(1, self.least, *(-(-_busiest(uses) // copies) for uses, copies in self._groups))
        if low >= interval:
            return None
        alive = np.ones(interval - low, np.bool_)
        while alive.any():
            candidate = low + int(np.argmax(alive))
            for uses, copies in self._groups:
                found = _conflicts(uses, candidate * copies)
                if found.size:
                    alive[candidate - low] = False
                    self._exclude(alive, low, uses, copies, found)
                    break
            else:
                return candidate
        return None

    def _exclude(self, alive: Array, low: int, uses: Uses, copies: int, resources: Array) -> None:
        """Take away all intervals at which one of the resources is shared, as far as pairs of its uses say."""
        for resource in resources[:_LOOKED_AT].tolist():
            mine = uses.resource == resource
            shared = _distances(uses.begin[mine], uses.end[mine], self.span)
            for apart in range(1, self.span // (low * copies) + 1):
                there = shared[apart * copies * low :: apart * copies][: alive.size]
                alive[: there.size] &= ~there
            if not alive.any():
                break


def _busiest(uses: Uses) -> int:
    """Cycles that the busiest resource is in use."""
    if not uses.resource.size:
        return 0
    return int(np.bincount(uses.resource, uses.end - uses.begin).max())


def _conflicts(uses: Uses, period: int) -> Array:
    """Resources that are in use twice in a cycle when all is repeated every ``period`` cycles."""
    begin = uses.begin % period
    order = np.lexsort((begin, uses.resource))
    resource, begin = uses.resource[order], begin[order]
    end = begin + (uses.end - uses.begin)[order]
    if not order.size:
        return order
    first = np.append(True, resource[1:] != resource[:-1])
    starts = np.flatnonzero(first)
    following = np.append(begin[1:], 0)
    last = np.append(starts[1:], order.size) - 1
    following[last] = begin[starts] + period  # behind the last use comes the first of the next turn
    shared = np.asarray(resource[end > following])
    return np.asarray(shared[np.append(True, shared[1:] != shared[:-1])[: shared.size]])


def _distances(begin: Array, end: Array, span: int) -> Array:
    """By number of cycles whether two inferences that far apart share a resource that one uses in [``begin``, ``end``).

    Of very many uses only the longest are compared with all: what is found then is true, but not everything.
    """
    begin, end = _joined(begin, end)
    chosen = np.argsort(begin - end, kind="stable")[: max(1, _PAIRS // begin.size)]
    low = np.concatenate([_less(begin[chosen], end), _less(begin, end[chosen])])
    high = np.concatenate([_less(end[chosen], begin), _less(end, begin[chosen])])
    low, high = np.maximum(low + 1, 1), np.minimum(high, span + 1)
    there = high > low
    size = span + 2
    depth = np.bincount(low[there], minlength=size) - np.bincount(high[there], minlength=size)
    return np.asarray(np.cumsum(depth)[: span + 1] > 0)


def _less(a: Array, b: Array) -> Array:
    return np.asarray((a[:, None] - b[None, :]).ravel())


def _joined(begin: Array, end: Array) -> tuple[Array, Array]:
    """Uses in order, those that follow each other without a gap as one."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    first = np.append(True, begin[1:] > end[:-1])
    return begin[first], end[np.append(np.flatnonzero(first)[1:], begin.size) - 1]
