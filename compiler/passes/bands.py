"""Bands: a stretch of operations runs through a few rows of its result at a time, so that less is live at once.

Every operation of the stretch computes each of its rows once, in the band that needs it first; rows that the next band needs
again are copied to it, not computed again. So the work is the graph's, and results keep their bits. Only operations whose
rows depend on neighbouring rows take part: windows, products over channels, maps, joins along another axis.
Less is live only if the operations then run in the graph's order, one after the other. Source: fused layers that keep the
overlap of neighbouring tiles (M. Alwani et al., "Fused-layer CNN accelerators", MICRO 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from compiler.ir import Compute, Graph, Join, Node, Operand, Part, TensorType, View, operands_of, reads_of
from compiler.passes.live import live_bytes
from compiler.passes.rewriter import Rewriter

REACH = 12  # operations before and behind the fullest moment that a stretch may hold
COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # bands that are tried
BAND = "band"
STRETCHES = 6  # that a graph is cut at, at most
TRIES = 60_000  # operations of all the cuts that are judged for each of them

Rows = tuple[int, int]  # from the first row to behind the last


def in_bands(graph: Graph, room: int) -> Graph | None:
    """The graph with at most ``room`` bytes live at once, operation by operation; None where bands cannot reach that."""
    for _ in range(STRETCHES):
        sums = live_bytes(graph)
        peak = max(sums, default=0)
        if peak <= room:
            return graph
        better = _lowered(graph, sums.index(peak), room)
        if better is None:
            return None
        graph = better
    return graph if max(live_bytes(graph)) <= room else None


def _lowered(graph: Graph, at: int, room: int) -> Graph | None:
    """The cheapest stretch around the fullest operation that fits the room, else the one that leaves least live."""
    before = max(live_bytes(graph))
    best: tuple[tuple[int, int], Graph] | None = None
    for made in islice(_cuts(graph, at, room), TRIES // len(graph.nodes)):
        peak = max(live_bytes(made))
        key = (max(peak, room), len(made.nodes))
        if peak < before and (best is None or key < best[0]):
            best = (key, made)
    return best[1] if best else None


def _cuts(graph: Graph, at: int, room: int) -> Iterator[Graph]:
    """Every stretch in more and more bands until it fits, the short stretches first."""
    for stretch in _stretches(graph, at, room):
        for count in COUNTS:
            made = stretch.cut(count)
            if made is None:
                break
            yield made
            if max(live_bytes(made)) <= room:
                break


def _stretches(graph: Graph, at: int, room: int) -> Iterator[_Stretch]:
    readers: dict[str, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for value in reads_of(node):
            readers.setdefault(value, []).append(number)
    for last in range(at, min(at + REACH, len(graph.nodes))):
        if graph.types[graph.nodes[last].output].bytes > room:
            continue
        for first in range(at, max(at - REACH, -1), -1):
            nodes = graph.nodes[first : last + 1]
            if not _takes_part(nodes[0]):
                break
            within = range(first, last + 1)
            alone = all(
                n.output not in graph.kept and all(r in within for r in readers.get(n.output, ())) for n in nodes[:-1]
            )
            yield from _cut_along(graph, first, nodes) if alone and len(nodes) > 1 else ()


def _cut_along(graph: Graph, first: int, nodes: tuple[Node, ...]) -> Iterator[_Stretch]:
    """A stretch by each dimension of its result along which all of it can be cut."""
    for dim, size in enumerate(graph.types[nodes[-1].output].shape):
        stretch = _Stretch(graph, first, nodes, dim)
        if size >= COUNTS[0] and stretch.known():
            yield stretch


def _takes_part(node: Node) -> bool:
    return isinstance(node, Compute | View | Join) and node.guard is None and not (node.part and node.part.kind == BAND)


class _Stretch:
    """Neighbouring operations of which only the last is read elsewhere, and its dimension that is cut."""

    def __init__(self, graph: Graph, first: int, nodes: tuple[Node, ...], dim: int) -> None:
        self.graph, self.first, self.nodes = graph, first, nodes
        self.made = {n.output for n in nodes}
        self.dims = {nodes[-1].output: dim}

    def known(self) -> bool:
        """Whether every value is read along one dimension, in ascending order; notes which."""
        for node in reversed(self.nodes):
            dim = self.dims.get(node.output)
            if dim is None or not _takes_part(node) or (isinstance(node, Join) and node.axis == dim):
                return False
            if not all(self._rises(o, dim) for o in self.read(node) if o.value in self.made):
                return False
        return True

    def _rises(self, operand: Operand, loop: int) -> bool:
        """Whether the loop moves one dimension of the operand, upwards, and no reader another one."""
        moved, access = operand.access.dims(loop), operand.access
        rises = len(moved) == 1 and access.matrix[moved[0]][loop] > 0
        return rises and self.dims.setdefault(operand.value, moved[0]) == moved[0]

    def read(self, node: Node) -> tuple[Operand, ...]:
        """Operands; the parts of a join as if each were read alone."""
        if isinstance(node, Join):
            return tuple(Operand.whole(p, len(self.graph.types[p].shape)) for p in node.parts)
        return operands_of(node)

    def loops(self, node: Node) -> tuple[int, ...]:
        return node.loops if isinstance(node, Compute) else self.graph.types[node.output].shape

    def cut(self, count: int) -> Graph | None:
        """The graph with this stretch in ``count`` bands; None where some band would have no rows of an operation."""
        size = self.graph.types[self.nodes[-1].output].shape[self.dims[self.nodes[-1].output]]
        if size < count:
            return None
        own: dict[str, list[Rows]] = {
            self.nodes[-1].output: [(size * b // count, size * (b + 1) // count) for b in range(count)]
        }
        lows: dict[str, list[int]] = {}
        for node in reversed(self.nodes[:-1]):
            found = self._needed(node.output, own, count)
            if found is None:
                return None
            own[node.output], lows[node.output] = found
        return _Writer(self, own, lows).run(count)

    def _needed(self, value: str, own: dict[str, list[Rows]], count: int) -> tuple[list[Rows], list[int]] | None:
        """By band, the rows that are new and the first that is needed."""
        dim = self.dims[value]
        size = self.graph.types[value].shape[dim]
        rows, lows, end = [], [], 0
        for band in range(count):
            low, high = size, 0
            for node in self.nodes:
                for operand in self.read(node):
                    if operand.value == value and node.output in own:
                        a, b = self._range(node, operand, dim, own[node.output][band])
                        low, high = min(low, a), max(high, b + 1)
            start, end = end, size if band == count - 1 else min(high, size)
            if end <= start:
                return None
            rows.append((start, end))
            lows.append(min(max(low, 0), start))
        return rows, lows

    def _range(self, node: Node, operand: Operand, dim: int, rows: Rows) -> Rows:
        moved = operand.access.shifted(self.dims[node.output], rows[0])
        loops = list(self.loops(node))
        loops[self.dims[node.output]] = rows[1] - rows[0]
        return moved.range(dim, tuple(loops))


class _Writer:
    """Writes the bands of a stretch into a graph. ``rows``: by band the rows of each value at hand, ``name``: under which
    name."""

    def __init__(self, stretch: _Stretch, own: dict[str, list[Rows]], lows: dict[str, list[int]]) -> None:
        self.stretch, self.own, self.lows = stretch, own, lows
        self.writer = Rewriter(stretch.graph)
        self.types, self.nodes = self.writer.types, self.writer.nodes
        self.name: dict[str, str] = {}
        self.rows: dict[str, Rows] = {}

    def run(self, count: int) -> Graph:
        s, graph = self.stretch, self.stretch.graph
        last = s.nodes[-1]
        parts: list[str] = []
        for band in range(count):
            for node in s.nodes:
                made = self._band(node, band)
                if node is last:
                    parts.append(made.output)
                else:
                    self._keep(node, made.output, band)
        axis = s.dims[last.output]
        whole = Part(BAND, count, last.output)
        self.nodes.append(
            Join(self.writer.name(f"{last.name}~bands"), last.output, last.source, tuple(parts), axis, part=whole)
        )
        nodes = (*graph.nodes[: s.first], *self.nodes, *graph.nodes[s.first + len(s.nodes) :])
        return self.writer.done(nodes)

    def _band(self, node: Node, band: int) -> Node:
        """The node for the rows that are new in a band."""
        start, end = self.own[node.output][band]
        dim = self.stretch.dims[node.output]
        name, output = self.writer.name(f"{node.name}~band{band}"), self._value(node.output, "band", band, (start, end))
        node = replace(node, part=Part(BAND, band, node.output))
        made: Node
        if isinstance(node, Join):
            parts = tuple(self._slice(part, dim, (start, end), node, band) for part in node.parts)
            made = replace(node, name=name, output=output, parts=parts)
        elif isinstance(node, View):
            made = replace(node, name=name, output=output, operand=self._operand(node.operand, dim, start))
        else:
            assert isinstance(node, Compute)
            loops = tuple(end - start if i == dim else n for i, n in enumerate(node.loops))
            operands = tuple(self._operand(o, dim, start) for o in node.operands)
            made = replace(node, name=name, output=output, loops=loops, operands=operands)
        self.nodes.append(made)
        return made

    def _keep(self, node: Node, made: str, band: int) -> None:
        """The rows at hand from here on: the new ones, behind those of the band before that are needed again."""
        value = node.output
        start, end = self.own[value][band]
        low = self.lows[value][band]
        if low < start:
            dim = self.stretch.dims[value]
            halo = self._view(value, "halo", band, (low, start), node)
            rows = self._value(value, "rows", band, (low, end))
            self.nodes.append(Join(self.writer.name(f"{node.name}~rows{band}"), rows, node.source, (halo, made), dim))
            made = rows
        self.name[value], self.rows[value] = made, (low, end)

    def _operand(self, operand: Operand, dim: int, start: int) -> Operand:
        access = operand.access.shifted(dim, start)
        if operand.value not in self.name:
            return operand.read_by(access)
        j, low = self.stretch.dims[operand.value], self.rows[operand.value][0]
        access = access.replaced(j, access.offset[j] - low, access.matrix[j])
        return replace(operand, value=self.name[operand.value], access=access)

    def _slice(self, value: str, dim: int, rows: Rows, node: Node, band: int) -> str:
        if self.rows.get(value) == rows:
            return self.name[value]
        return self._view(value, f"part{len(self.nodes)}_", band, rows, node, dim)

    def _view(self, value: str, kind: str, band: int, rows: Rows, node: Node, dim: int | None = None) -> str:
        """Some of the rows at hand."""
        j = self.stretch.dims[value] if dim is None else dim
        name = self._value(value, kind, band, rows, j)
        part = self._operand(self.writer.whole(value), j, rows[0])
        self.nodes.append(View(self.writer.name(f"{node.name}~{kind}{band}"), name, node.source, operand=part))
        return name

    def _value(self, value: str, kind: str, band: int, rows: Rows, dim: int | None = None) -> str:
        """A new value: as many rows of another."""
        t = self.types[value]
        j = self.stretch.dims[value] if dim is None else dim
        shape = tuple(rows[1] - rows[0] if i == j else n for i, n in enumerate(t.shape))
        return self.writer.value(f"{value}~{kind}{band}", TensorType(t.dtype, shape))
