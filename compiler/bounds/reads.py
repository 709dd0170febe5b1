"""How many elements of a value surely go into some elements of another: the windows of the heads.

A *box* is a product of index sets, given by their sizes. What a box of outputs reads of a value is a product of index sets
too, if no loop moves two coordinates; of each the least size over all boxes of these sizes is counted. Accesses of one
operation to one value that differ by their offsets alone (the taps of a pool) are counted together.

Along a padded dimension the windows of b positions are fewest where padding cuts them: windows [cp + t, cp + t + w) of
neighbours that do not overlap another group can be pushed towards the nearer end without covering more, so some first and
some last positions are a least choice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from math import prod

import numpy as np

from compiler.bounds.shape import Box, Places, always_reads, distinct, mixed_loops, read_operands
from compiler.ir import Compute, Gather, Graph, Node, Operand, View, operands_of

MOST = 1 << 22  # elements of a value that are looked at one by one

Longs = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Along:
    """One dimension of ``extent`` elements: coefficients by loop, and the least and number of neighbouring offsets (taps).

    ``outer``: the parallel loops that move it; ``known``: what has been counted, by points along these."""

    extent: int
    row: tuple[int, ...]
    offset: int
    taps: int
    padded: bool
    outer: tuple[int, ...]
    known: dict[Box, int] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Reading:
    """What a node reads of a value. ``always``: for every element of its output; ``before``: inside of its reduction;
    ``whole``: every element of the value, all outputs together."""

    value: str
    dimensions: tuple[Along, ...]
    loops: tuple[int, ...]
    parallel: int
    mixed: tuple[bool, ...]  # by loop: moves several coordinates
    always: bool
    before: bool
    whole: bool
    known: dict[Box, Box] = field(default_factory=dict, compare=False, repr=False)  # what has been counted
    apart: dict[Places, Places | None] = field(default_factory=dict, compare=False, repr=False)  # and where it lies

    def box(self, outputs: Box) -> Box:
        """At least so many indices along each dimension go into ``outputs`` points along each parallel loop."""
        least = 1 if self.always else 0
        return tuple(max(least, self._indices(a, outputs)) for a in self.dimensions)

    def _indices(self, a: Along, outputs: Box) -> int:
        key = tuple(outputs[i] for i in a.outer)
        found = a.known.get(key)
        if found is None:
            points = (*outputs, *self.loops[self.parallel :])
            some = tuple(1 if m else n for m, n in zip(self.mixed, points, strict=True))
            found = a.known[key] = _along(a, some, self.loops, self.parallel)
        return found


def readings(node: Node, graph: Graph) -> list[Reading]:
    """All accesses of an operation whose places are known; a gather's indices, not its data."""
    operands: Sequence[Operand] = operands_of(node)
    loops, parallel = graph.types[node.output].shape, len(graph.types[node.output].shape)
    wanted: set[Operand] = set()
    if isinstance(node, Compute):
        operands, loops, parallel = read_operands(node), node.loops, node.parallel
        used = {step.imm for step in node.expr.steps if step.op == "arg"}
        wanted = {o for i, o in enumerate(node.operands) if i in used}
    elif isinstance(node, Gather):
        operands = [o for o in node.indices if o is not None]
    elif not isinstance(node, View):
        return []
    found = []
    for _, group in groupby(sorted(operands, key=lambda o: _kind(o, o in wanted)), key=lambda o: _kind(o, o in wanted)):
        for taps in _together(list(group), graph, loops):
            found += [_reading(taps, graph, node, loops, parallel, before=taps[0] in wanted)]
    return found


def _kind(operand: Operand, wanted: bool) -> tuple[str, tuple[tuple[int, ...], ...], bool]:
    return operand.value, operand.access.matrix, wanted


def _together(group: Sequence[Operand], graph: Graph, loops: Box) -> list[list[Operand]]:
    """The group as one if its offsets are all combinations of neighbours along each dimension; else one by one."""
    sets = [sorted(set(along)) for along in zip(*(o.access.offset for o in group), strict=True)]
    neighbours = all(s[-1] - s[0] == len(s) - 1 for s in sets)
    every = prod(len(s) for s in sets) == len({o.access.offset for o in group})
    return [list(group)] if neighbours and every else [[o] for o in group]


def _reading(taps: Sequence[Operand], graph: Graph, node: Node, loops: Box, parallel: int, *, before: bool) -> Reading:
    shape = graph.types[taps[0].value].shape
    mixed = mixed_loops(taps[0], len(loops))
    along = tuple(_dimension(taps, j, extent, loops, parallel) for j, extent in enumerate(shape))
    always = any(o.fill is None for o in taps)
    if isinstance(node, Compute) and not any(mixed):
        always = always or any(always_reads(o, graph, loops, parallel) for o in taps)
    whole = not any(mixed) and all(_all_reached(a, loops) for a in along)
    return Reading(taps[0].value, along, loops, parallel, mixed, always, before, whole)


def _dimension(taps: Sequence[Operand], j: int, extent: int, loops: Box, parallel: int) -> Along:
    """One dimension of what several neighbouring taps read."""
    offsets, row = [o.access.offset[j] for o in taps], taps[0].access.matrix[j]
    ranges = [o.access.range(j, loops) for o in taps]
    outside = any(low < 0 or high >= extent for low, high in ranges)
    outer = tuple(i for i in range(parallel) if row[i] and loops[i] > 1)
    return Along(extent, row, min(offsets), max(offsets) - min(offsets) + 1, outside, outer)


def _along(a: Along, points: Box, loops: Box, parallel: int) -> int:
    """The least number of indices along one dimension that so many points along each loop reach."""
    moved = [i for i, c in enumerate(a.row) if c and loops[i] > 1]
    if not a.padded:
        return min(a.extent, distinct((*a.row, 1), (*points, a.taps)))
    outer = [i for i in moved if i < parallel]
    inner = tuple((a.row[i], points[i]) for i in moved if i >= parallel)
    if len(outer) > 1:
        return 0
    step, count, all_of_them = (a.row[outer[0]], points[outer[0]], loops[outer[0]]) if outer else (0, 1, 1)
    return _padded(a.extent, a.offset, a.taps, step, count, all_of_them, inner)


@lru_cache(maxsize=1 << 14)
def _padded(
    extent: int, offset: int, taps: int, step: int, count: int, positions: int, inner: tuple[tuple[int, int], ...]
) -> int:
    """Indices inside [0, extent) that the windows of ``count`` of so many positions cover at least."""
    window = _window(offset, taps, inner)
    if int(window[-1] - window[0]) != len(window) - 1:  # gaps: the best single offset
        outside = positions - _inside(extent, window, step, positions)
        return max(0, count - int(outside.min())) if step else int((outside == 0).sum())
    prefix, suffix = _sliding(extent, int(window[0]), len(window), step, positions)
    sums = prefix[: count + 1] + suffix[count::-1]
    return int(min(sums.min(), prefix[-1]))


def _inside(extent: int, window: Longs, step: int, positions: int) -> Longs:
    """How many of so many positions have each tap of a window inside [0, extent)."""
    if not step:
        return np.where((window >= 0) & (window < extent), positions, 0)
    low = window if step > 0 else window + step * (positions - 1)
    first = np.maximum(0, -(low // abs(step)))
    last = np.minimum(positions - 1, (extent - 1 - low) // abs(step))
    return np.asarray(np.maximum(0, last - first + 1), dtype=np.int64)


@lru_cache(maxsize=8)
def _sliding(extent: int, low: int, length: int, step: int, positions: int) -> tuple[Longs, Longs]:
    """Indices inside [0, extent) that the first so many windows of a length cover, and those that the last do."""
    lows = low + step * np.arange(positions, dtype=np.int64)
    if step < 0:
        lows = lows[::-1]
    first, last = np.clip(lows, 0, extent), np.clip(lows + length, 0, extent)
    new = last - np.maximum(first, np.concatenate([[0], last[:-1]]))  # what each window adds to those before it
    old = np.minimum(last, np.concatenate([first[1:], [extent]])) - first  # what each adds to those behind it
    prefix = np.concatenate([[0], np.cumsum(new)])
    suffix = np.concatenate([[0], np.cumsum(old[::-1])])
    return prefix, suffix


def _window(offset: int, taps: int, inner: tuple[tuple[int, int], ...]) -> Longs:
    found = offset + np.arange(taps, dtype=np.int64)
    for coefficient, n in inner:
        places = (found[:, None] + coefficient * np.arange(n)[None, :]).ravel()
        low = int(places.min())
        found = np.asarray(np.flatnonzero(np.bincount(places - low)) + low, dtype=np.int64)
    return found


@lru_cache(maxsize=1 << 12)
def _reached(a: Along, loops: Box) -> Longs:
    """Indices along a dimension that all loops reach, inside the value."""
    found = _window(a.offset, a.taps, tuple((c, n) for c, n in zip(a.row, loops, strict=True) if c and n > 1))
    return np.asarray(found[(found >= 0) & (found < a.extent)], dtype=np.int64)


@lru_cache(maxsize=1 << 12)
def _all_reached(a: Along, loops: Box) -> bool:
    if not a.padded and distinct((*a.row, 1), (*loops, a.taps)) >= a.extent:
        return True
    return len(_reached(a, loops)) == a.extent


def covered(graph: Graph, found: Mapping[str, Sequence[Reading]]) -> frozenset[str]:
    """Values of which no operation takes every element, but all their readers together do."""
    parts: dict[str, list[Reading]] = defaultdict(list)
    for taken in found.values():
        for r in taken:
            parts[r.value].append(r)
    return frozenset(
        value
        for value, taken in parts.items()
        if len(taken) > 1 and not any(r.whole for r in taken) and _together_whole(graph.types[value].shape, taken)
    )


def _together_whole(shape: Box, taken: Sequence[Reading]) -> bool:
    sets = [[_reached(a, r.loops) for a in r.dimensions] for r in taken if not any(r.mixed)]
    partly = [j for j, n in enumerate(shape) if any(len(s[j]) < n for s in sets)]  # the others are taken by each
    size = [shape[j] for j in partly]
    if not sets or prod(size) > MOST:
        return False
    flags = np.zeros(size, dtype=np.bool_)
    for each in sets:
        flags[np.ix_(*(each[j] for j in partly))] = True
    return bool(flags.all())
