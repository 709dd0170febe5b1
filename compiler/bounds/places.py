"""Which elements surely go into some of a value, as sets of places: how they lie to each other, wherever they lie.

A box says how many; here a dimension has *steps* (coefficient, count): its indices are some first one and all sums of a
multiple of each coefficient. Only what is exact whatever the first index is kept; less of a set is a set, too, of which a
value surely takes as much. So a mean of every fourth row is known to need rows that lie apart, and the link, which brings
neighbours, needs as many cycles for them as for those between.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from compiler.bounds.names import factored
from compiler.bounds.reads import Reading
from compiler.bounds.shape import Box, Places, Steps, distinct
from compiler.ir import Graph, Reshape
from compiler.isa.timing import ceil_div

MOST = 1 << 16  # elements that are looked at one by one


def taken(reading: Reading, outputs: Places) -> Places | None:
    """What outputs at such places take by a reading; None where padding may cut it."""
    if outputs not in reading.apart:
        reading.apart[outputs] = _taken(reading, outputs)
    return reading.apart[outputs]


def _taken(reading: Reading, outputs: Places) -> Places | None:
    if not reading.always or any(a.padded for a in reading.dimensions):
        return None
    moved: list[Steps] = [*outputs, *(((1, n),) if n > 1 else () for n in reading.loops[reading.parallel :])]
    found = []
    for a in reading.dimensions:
        steps = [(c * by, n) for i, c in enumerate(a.row) if c and not reading.mixed[i] for by, n in moved[i]]
        found.append(_kept((*steps, (1, a.taps)), a.extent))
    return tuple(found)


def _kept(steps: Steps, extent: int) -> Steps:
    """Steps along a dimension, in one form where they are all of it."""
    some = tuple(sorted((abs(c), n) for c, n in steps if n > 1))
    if distinct(tuple(c for c, _ in some), tuple(n for _, n in some)) >= extent:
        return ((1, extent),) if extent > 1 else ()
    return some


def whole(places: Places, shape: Box) -> bool:
    """Whether it is every element."""
    return all(n == 1 or steps == ((1, n),) for steps, n in zip(places, shape, strict=True))


def renamed(node: Reshape, graph: Graph, places: Places) -> Places:
    """What is there of the input of a reshape: along dimensions that have factors in common, whole ones and steps over
    whole multiples of all factors but the first; no step of those carries over, wherever it begins."""
    before, after = graph.types[node.input].shape, graph.types[node.output].shape
    found: list[Steps] = [()] * len(before)
    for old, new, factors in factored(before, after):
        if all(places[j] == ((1, after[j]),) for j in new):
            for i in old:
                found[i] = ((1, before[i]),)
        elif factors is not None:
            row = [steps for j, parts in zip(new, factors[1], strict=True) for steps in _apart(places[j], parts)]
            for i, parts in zip(old, factors[0], strict=True):
                sizes = [prod(parts[k + 1 :]) for k in range(len(parts))]
                own, row = row[: len(parts)], row[len(parts) :]
                steps = [(c * size, n) for size, some in zip(sizes, own, strict=True) for c, n in some]
                found[i] = _kept(tuple(steps), before[i])
    return tuple(found)


def _apart(steps: Steps, factors: list[int]) -> list[Steps]:
    """Steps along a dimension as steps along each of its factors."""
    if steps == ((1, prod(factors)),):
        return [((1, n),) for n in factors]
    size = prod(factors[1:])
    return [tuple((c // size, n) for c, n in steps if c % size == 0), *[()] * (len(factors) - 1)]


@lru_cache(maxsize=1 << 12)
def beats(shape: Box, places: Places, together: int) -> int:
    """In how many pieces of ``together`` neighbours in a row of all elements those at such places are at least."""
    strides = [prod(shape[j + 1 :]) for j in range(len(shape))]
    steps = [(stride * c, n) for stride, along in zip(strides, places, strict=True) for c, n in along]
    count = prod(n for _, n in steps)
    if count > MOST:
        return 0
    at = np.zeros(1, dtype=np.int64)
    for c, n in steps:
        at = np.sort((at[:, None] + c * np.arange(n, dtype=np.int64)).ravel())
        at = at[np.concatenate([[True], at[1:] > at[:-1]])]
    most = int((np.searchsorted(at, at + together) - np.arange(len(at))).max())
    return ceil_div(len(at), most)
