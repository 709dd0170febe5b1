"""Sums over channels that are normalised over all positions go by groups of channels.

A normalisation of each channel over all positions needs the last of them before its first result. The sum over channels
that follows needs no more than the channels that it has come to: with groups of channels outermost in its order, and in
the values between, the first group is multiplied while the next is normalised; and where a reshape made the channels of
rows that are looked up, while the next rows are. Rounded sums take another order by that; all else keeps its bits.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Gather, Graph, Node, Operand, Reshape, reads_of
from compiler.ir.types import TensorType
from compiler.passes.clean import uses
from compiler.passes.views import groups

LEAST = 1 << 16  # elements that are normalised together, so many that others wait for them
POSITIONS = 64  # that a channel is normalised over at least
CHANNELS = 64  # of a group at least: they lie side by side in memory
DEPTH = 256  # terms of a group's part of a sum at least: about what planes take at once
MOST = 8  # groups
WORTH = 4096  # bytes that an element is multiplied by at least: with fewer all wait for the vector unit, not for planes

Shape = tuple[int, ...]


def by_groups(graph: Graph, least: int = LEAST) -> Graph:
    """The graph with every sum over channels behind a normalisation of ``least`` elements by groups of these; the same
    values but for the rounding of those sums."""
    if not any(isinstance(n, Gather) for n in graph.nodes):
        return graph
    makers = {n.output: n for n in graph.nodes}
    for name in [n.output for n in graph.nodes if isinstance(n, Compute) and n.is_contraction]:
        region = _found(makers[name], graph, makers, least)
        if region is not None:
            graph = _written(graph, region)
            makers = {n.output: n for n in graph.nodes}
    return graph


@dataclass
class _Region:
    """``dims``: by value the dimension that the channels lie along; ``loops``: by output of an operation that makes or reads
    one the loop over them; ``count``: groups."""

    dims: dict[str, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    count: int = 0


def _found(node: Node, graph: Graph, makers: dict[str, Node], least: int) -> _Region | None:
    """The channels that a contraction adds up, if they are normalised one by one before."""
    assert isinstance(node, Compute)
    types = graph.types
    for factor in node.operands[:2]:
        maker = makers.get(factor.value)
        if not isinstance(maker, Compute) or maker.is_contraction:
            continue
        for dim, extent in enumerate(types[factor.value].shape):
            loop = _along(node, factor, dim, extent)
            if loop is None or loop < node.parallel:
                continue
            if node.points * node.reduction * types[factor.value].dtype.size < WORTH * types[factor.value].elements:
                continue
            region = _Grower(graph, makers).grown(factor.value, dim)
            if region and _looked_up(region, makers) and _normalised(factor.value, region, graph, makers, least):
                region.count = _count(region, node, extent, graph, makers)
                if region.count > 1:
                    return region
    return None


def _along(node: Compute, operand: Operand, dim: int, extent: int) -> int | None:
    """The loop that walks over a dimension of an operand from its beginning to its end, and over no other one."""
    row = operand.access.matrix[dim]
    moved = [i for i, c in enumerate(row) if c]
    if len(moved) != 1 or row[moved[0]] != 1 or operand.access.offset[dim] or node.loops[moved[0]] != extent:
        return None
    alone = not any(other[moved[0]] for j, other in enumerate(operand.access.matrix) if j != dim)
    return moved[0] if alone else None


class _Grower:
    """Follows channels through all that makes or reads them."""

    def __init__(self, graph: Graph, makers: dict[str, Node]) -> None:
        self.graph, self.makers = graph, makers
        self.readers: dict[str, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for value in dict.fromkeys(reads_of(node)):
                self.readers[value].append(node)
        self.counts = uses(graph)
        self.ends = {*graph.outputs, *(s.update for s in graph.states)}
        self.region, self.ways = _Region(), list[str]()

    def grown(self, value: str, dim: int) -> _Region | None:
        """All that has the channels of a value; None where something takes them in another way."""
        ok = self._meet(value, dim)
        while ok and self.ways:
            ok = self._follow(self.ways.pop())
        region = self.region
        inputs = {n.input for n in map(self.makers.get, region.dims) if isinstance(n, Reshape)}
        return region if ok and inputs.isdisjoint(region.loops) else None

    def _meet(self, value: str, dim: int) -> bool:
        if value not in self.region.dims:
            self.ways.append(value)
        return self.region.dims.setdefault(value, dim) == dim

    def _follow(self, value: str) -> bool:
        dim, extent = self.region.dims[value], self.graph.types[value].shape[self.region.dims[value]]
        maker = self.makers.get(value)
        made = self.makers.get(maker.input) if isinstance(maker, Reshape) else maker
        if value in self.ends or made is None or made.guard is not None or not isinstance(made, Compute | Gather):
            return False
        if isinstance(maker, Reshape):
            if self.counts[maker.input] != 1 or (isinstance(made, Compute) and _counts(made)):
                return False
        elif isinstance(maker, Compute) and not self._claim(maker, dim):
            return False
        for node in self.readers[value]:
            if not isinstance(node, Compute) or node.guard is not None:
                return False
            for operand in node.operands:
                loop = _along(node, operand, dim, extent) if operand.value == value else -1
                if loop is None or (loop >= 0 and not self._claim(node, loop)):
                    return False
        return True

    def _claim(self, node: Compute, loop: int) -> bool:
        """A loop of a node walks over the channels, and so do its operands and its result along it."""
        if self.region.loops.get(node.output, loop) != loop or _counts(node):
            return False
        if node.output in self.region.loops:
            return True
        self.region.loops[node.output] = loop
        for operand in node.operands:
            dims = [j for j, row in enumerate(operand.access.matrix) if row[loop]]
            if not dims or operand.value in self.graph.constants:
                continue
            if _along(node, operand, dims[0], node.loops[loop]) != loop or not self._meet(operand.value, dims[0]):
                return False
        return loop >= node.parallel or self._meet(node.output, loop)


def _counts(node: Compute) -> bool:
    """Whether the node asks for the coordinate of a loop."""
    return any(s.op == "index" for s in (*node.expr.steps, *(node.post.steps if node.post else ())))


def _looked_up(region: _Region, makers: dict[str, Node]) -> bool:
    """Whether some of the values are looked up: then nothing that planes make is waited for twice."""
    made = [makers[value] for value in region.dims]
    return any(isinstance(makers[n.input] if isinstance(n, Reshape) else n, Gather) for n in made)


def _normalised(value: str, region: _Region, graph: Graph, makers: dict[str, Node], least: int) -> bool:
    """Whether a value depends on what reduces so many elements and leaves the channels apart."""
    ways, seen = [value], {value}
    while ways:
        node = makers[ways.pop()]
        if not isinstance(node, Compute) or node.is_contraction:
            continue
        for operand in node.operands:
            size = graph.types[operand.value].elements
            if operand.value not in region.dims:
                continue
            if node.reducer and size >= max(least, POSITIONS * node.loops[region.loops[node.output]]):
                return True
            if operand.value not in seen:
                seen.add(operand.value)
                ways.append(operand.value)
    return False


def _count(region: _Region, node: Compute, extent: int, graph: Graph, makers: dict[str, Node]) -> int:
    """The most groups that are deep enough for planes and that every reshape can tell apart; 1 where there are none."""
    reshapes = [makers[value] for value in region.dims if isinstance(makers[value], Reshape)]
    return next(
        (
            count
            for count in range(MOST, 1, -1)
            if extent % count == 0
            and extent // count >= CHANNELS
            and node.reduction // count >= DEPTH
            and all(isinstance(r, Reshape) and _origin(r, region, count, graph) for r in reshapes)
        ),
        1,
    )


def _cut(shape: Shape, dim: int, count: int) -> Shape:
    """A shape with a dimension cut into groups, which are outermost."""
    return (count, *shape[:dim], shape[dim] // count, *shape[dim + 1 :])


def _origin(node: Reshape, region: _Region, count: int, graph: Graph) -> Access | None:
    """Coordinates of what is reshaped, of those of the result in groups; None where one of them is several of these."""
    shape, dim = graph.types[node.output].shape, region.dims[node.output]
    fine = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    place = [*range(1, dim + 1), 0, *range(dim + 1, len(fine))]  # of a dimension in the result
    source = graph.types[node.input].shape
    rows = [[0] * len(fine) for _ in source]
    for left, right in groups(fine, source):
        wide = [j for j in right if source[j] > 1]
        if len(wide) > 1:
            return None
        for at, i in enumerate(left):
            if wide and fine[i] > 1:
                rows[wide[0]][place[i]] = prod(fine[k] for k in left[at + 1 :])
    return Access((0,) * len(source), tuple(tuple(row) for row in rows))


def _written(graph: Graph, region: _Region) -> Graph:
    """The graph with the values of a region by groups."""
    makers = {n.output: n for n in graph.nodes}
    types = dict(graph.types)
    nodes: list[Node] = []
    reshaped = {n.input: n for n in graph.nodes if isinstance(n, Reshape) and n.output in region.dims}
    for value, dim in region.dims.items():
        types[value] = TensorType(types[value].dtype, _cut(types[value].shape, dim, region.count))
    for node in graph.nodes:
        if node.output in reshaped:  # made in the new shape at once, where the reshape stands
            del types[node.output]
        elif isinstance(node, Reshape) and node.output in region.dims:
            inner, made = _origin(node, region, region.count, graph), makers[node.input]
            assert inner is not None
            nodes.append(_over(replace(made, output=node.output), types[node.output].shape, inner))
        elif isinstance(node, Gather) and node.output in region.dims:
            nodes.append(
                _over(node, types[node.output].shape, _grouped(node.loops, 0, region.dims[node.output], region.count))
            )
        elif isinstance(node, Compute) and node.output in region.loops:
            nodes.append(_walked(node, region, types))
        else:
            nodes.append(node)
    return graph.with_nodes(tuple(nodes), types=types)


def _grouped(loops: Shape, at: int, loop: int, count: int) -> Access:
    """Coordinates of loops, of those with a loop over groups at a place before one that is cut into groups."""
    size = loops[loop] // count
    rows = []
    for i in range(len(loops)):
        row = [int(i == j) for j in range(len(loops))]
        rows.append((*row[:at], size if i == loop else 0, *row[at:]))
    return Access((0,) * len(loops), tuple(rows))


def _over(node: Node, shape: Shape, inner: Access) -> Node:
    """A node whose result has another shape: the coordinates of its old one, of those of the new."""
    assert isinstance(node, Compute | Gather)
    if isinstance(node, Gather):
        data, *indices = (
            o and replace(o, access=o.access.compose(inner, len(shape))) for o in (node.data, *node.indices)
        )
        assert data is not None
        return replace(node, loops=shape, data=data, indices=tuple(indices))
    more = node.loops[node.parallel :]
    width = len(shape) + len(more)
    rows = [(*row, *(0,) * len(more)) for row in inner.matrix]
    rows += [tuple(int(len(shape) + n == i) for i in range(width)) for n in range(len(more))]
    whole = Access((0,) * len(rows), tuple(rows))
    operands = tuple(replace(o, access=o.access.compose(whole, width)) for o in node.operands)
    return replace(node, loops=(*shape, *more), parallel=len(shape), operands=operands)


def _walked(node: Compute, region: _Region, types: dict[str, TensorType]) -> Compute:
    """A node with the loop over channels in groups: these come first, or first of what is added up."""
    loop, count = region.loops[node.output], region.count
    summed = loop >= node.parallel
    at = (node.parallel if node.is_contraction else loop) if summed else 0
    inner = _grouped(node.loops, at, loop, count)
    loops = (*node.loops[:at], count, *node.loops[at:loop], node.loops[loop] // count, *node.loops[loop + 1 :])
    operands = []
    for operand in node.operands:
        access = operand.access.compose(inner, len(loops))
        if operand.value in region.dims:
            dim = region.dims[operand.value]
            rows = [(*row[:at], 0 if j == dim else row[at], *row[at + 1 :]) for j, row in enumerate(access.matrix)]
            group = tuple(int(i == at) for i in range(len(loops)))
            access = Access((0, *access.offset), (group, *rows))
        operands.append(replace(operand, access=access))
    return replace(node, loops=loops, parallel=node.parallel + (not summed), operands=tuple(operands))
