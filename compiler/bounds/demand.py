"""Which elements of every value some output surely depends on: behind slices, only what they let through.

Exact where accesses move each loop along one dimension: elements that several readers take (the gates of a recurrent
step, the shifted windows of a pool) are united, not counted twice. What is left out (places that data decides, diagonals)
can only lower a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from compiler.bounds.shape import read_operands, unmixed
from compiler.ir import Compute, Gather, Graph, Join, Node, Operand, Reshape, Scatter, Sort, View

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Points = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
PIECES = 16  # products of index sets that a set of elements is taken apart into, the rest is left out
MOST = 1 << 22  # elements of a gather whose places are looked at one by one


class Demands:
    """Demanded elements by value. ``share``: of all elements; ``box``: along each dimension when they form a product."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._whole: set[str] = set()
        self._some: dict[str, Flags] = {}
        for name in (*graph.outputs, *(s.update for s in graph.states)):
            self._all_of(name)
        for node in reversed(graph.nodes):
            self._reads(node)

    def share(self, value: str) -> Fraction:
        """The part of the value's elements that is demanded."""
        if value in self._whole:
            return Fraction(1)
        some = self._some.get(value)
        return Fraction(0) if some is None else Fraction(int(some.sum()), max(1, some.size))

    def box(self, value: str) -> tuple[int, ...] | None:
        """How many indices along each dimension, if all their combinations are demanded; None otherwise."""
        if value in self._whole:
            return self._graph.types[value].shape
        some = self._some.get(value)
        if some is None:
            return None
        counts = tuple(len(p) for p in _projections(some))
        return counts if prod(counts) == int(some.sum()) else None

    def _all_of(self, value: str) -> None:
        self._whole.add(value)
        self._some.pop(value, None)

    def _add(self, value: str, sets: Sequence[Points]) -> None:
        """All combinations of one index set per dimension."""
        shape = self._graph.types[value].shape
        if value in self._whole or not all(len(s) for s in sets):
            return
        if all(len(s) == n for s, n in zip(sets, shape, strict=True)):
            self._all_of(value)
            return
        self._flags(value)[np.ix_(*sets)] = True

    def _flags(self, value: str) -> Flags:
        return self._some.setdefault(value, np.zeros(self._graph.types[value].shape, dtype=np.bool_))

    def _unite(self, value: str, flags: Flags) -> None:
        if value not in self._whole:
            self._flags(value)[...] |= flags

    def _own(self, node: Node) -> list[tuple[Points, ...]]:
        """The node's demanded output as products of index sets."""
        some = self._some.get(node.output)
        if some is not None and some.all():
            self._all_of(node.output)
        if node.output in self._whole:
            return [tuple(np.arange(n) for n in self._graph.types[node.output].shape)]
        return [] if some is None else [p for p, _ in zip(_products(some), range(PIECES), strict=False)]

    def _reads(self, node: Node) -> None:
        own = self._own(node)
        if not own:
            return
        if isinstance(node, Compute):
            whole = [np.arange(n) for n in node.loops[node.parallel :]]
            for points in own:
                self._through(read_operands(node), (*points, *whole))
        elif isinstance(node, View):
            for points in own:
                self._through([node.operand], points)
        elif isinstance(node, Gather):
            for points in own:
                self._through([o for o in node.indices if o is not None], points)
                self._known_places(node, points)
        else:
            self._reordered(node, own)

    def _known_places(self, node: Gather, points: tuple[Points, ...]) -> None:
        """What a gather takes from its data, where all its indices are constants."""
        constants = self._graph.constants
        known = all(o is None or (o.value in constants and o.fill is None) for o in node.indices)
        if node.data.value in self._whole or prod(len(p) for p in points) > MOST or not known:
            return
        places = self._taken(node, points)
        inside = np.ones(places[0].shape if places else (), dtype=np.bool_)
        for along, n in zip(places, self._graph.types[node.data.value].shape, strict=True):
            inside &= (along >= 0) & (along < n)
        flags = self._flags(node.data.value)
        flags[tuple(along[inside] for along in places)] = True
        if flags.all():
            self._all_of(node.data.value)

    def _taken(self, node: Gather, points: tuple[Points, ...]) -> list[Points]:
        """Indices along each dimension of its data that a gather takes at these points, by its constant indices."""
        found = []
        for j, (index, extent) in enumerate(zip(node.indices, self._graph.types[node.data.value].shape, strict=True)):
            along = np.asarray(_coordinate(node.data, j, points))
            if index is not None:
                array = self._graph.constants[index.value]
                along = along + array[tuple(_coordinate(index, k, points) for k in range(array.ndim))]
                along = np.where(along < 0, along + extent, along)
            found.append(along)
        return list(np.broadcast_arrays(*found))

    def _reordered(self, node: Node, own: list[tuple[Points, ...]]) -> None:
        whole = node.output in self._whole
        if isinstance(node, Reshape):
            if whole:
                self._all_of(node.input)
            else:
                self._unite(node.input, self._some[node.output].reshape(self._graph.types[node.input].shape))
        elif isinstance(node, Join):
            self._parts(node, whole)
        elif isinstance(node, Sort):
            for points in own:  # any element of the rest decides who stands where
                length = self._graph.types[node.input].shape[-1]
                self._add(node.input, (*points[:-1], np.arange(length)))
        elif isinstance(node, Scatter) and node.reducer and whole:  # nothing is overwritten
            self._all_of(node.data)
            self._through([node.update], [np.arange(n) for n in node.loops])

    def _parts(self, node: Join, whole: bool) -> None:
        at = 0
        for part in node.parts:
            shape = self._graph.types[part].shape
            if whole:
                self._all_of(part)
            else:
                place = (slice(None),) * node.axis + (slice(at, at + shape[node.axis]),)
                self._unite(part, self._some[node.output][place])
            at += shape[node.axis]

    def _through(self, operands: Sequence[Operand], points: Sequence[Points]) -> None:
        for o in operands:
            if not unmixed(o):
                continue  # a diagonal: not a product of index sets
            shape = self._graph.types[o.value].shape
            if o.value not in self._whole and o.value not in self._graph.constants:
                self._add(o.value, [_reached(o, j, points, n) for j, n in enumerate(shape)])


def _coordinate(operand: Operand, j: int, points: Sequence[Points]) -> Points:
    """Dimension j at these points of the loops, with one axis per loop."""
    found = np.full((1,) * len(points), operand.access.offset[j], dtype=np.int64)
    for i, (coefficient, along) in enumerate(zip(operand.access.matrix[j], points, strict=True)):
        if coefficient:
            found = found + coefficient * along.reshape([-1 if k == i else 1 for k in range(len(points))])
    return found


def _reached(operand: Operand, j: int, points: Sequence[Points], extent: int) -> Points:
    """Indices of dimension j that an operand reads at these points of the loops, inside the tensor."""
    found = np.array([operand.access.offset[j]], dtype=np.int64)
    for coefficient, along in zip(operand.access.matrix[j], points, strict=True):
        if coefficient:
            found = _distinct((found[:, None] + coefficient * along[None, :]).ravel())
    return found[(found >= 0) & (found < extent)]


def _distinct(values: Points) -> Points:
    if not len(values):
        return values
    low = int(values.min())
    seen = np.zeros(int(values.max()) - low + 1, dtype=np.bool_)
    seen[values - low] = True
    return np.asarray(np.flatnonzero(seen) + low, dtype=np.int64)


def _projections(flags: Flags) -> tuple[Points, ...]:
    axes = range(flags.ndim)
    return tuple(np.flatnonzero(flags.any(axis=tuple(a for a in axes if a != axis))) for axis in axes)


def _products(flags: Flags) -> Iterator[tuple[Points, ...]]:
    """Products of index sets that together are the set; equal slices along the first dimension stay together."""
    if not flags.any():
        return
    sets = _projections(flags)
    if prod(len(s) for s in sets) == int(flags.sum()):
        yield sets
        return
    slices: dict[bytes, list[int]] = {}
    for at in sets[0].tolist():
        slices.setdefault(flags[at].tobytes(), []).append(at)
    for places in slices.values():
        for rest in _products(flags[places[0]]):
            yield (np.array(places, dtype=np.int64), *rest)
