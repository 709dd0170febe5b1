"""Bufferisation: every value gets a place; views and most reshapes cost nothing, joined pieces are written where they go.

Storage order: a contraction's columns innermost (channel-last), everything else follows its largest operand. Two passes:
the first finds the orders, the second places the pieces of joins inside the joined buffer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod

from compiler.ir.graph import Compute, Gather, Graph, Join, Merge, Node, Reshape, Scatter, Sort, View, reads_of
from compiler.ir.types import DType
from compiler.isa.machine import Machine
from compiler.schedule.place import Place, ordered_strides, row_major

Order = tuple[int, ...]


@dataclass
class Layout:
    """Places of all values that are not constants, and the buffers that hold them.

    ``roots``: for every value the values whose writers it is made of (an alias has those of what it names).
    ``states``: buffers that persist. Sizes are whole lines.
    """

    places: dict[str, Place] = field(default_factory=dict)
    roots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)
    states: set[str] = field(default_factory=set)
    orders: dict[str, Order] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)  # piece -> join whose buffer holds it
    copies: set[str] = field(default_factory=set)  # nodes (by output) that need a copy


def assign(graph: Graph, machine: Machine) -> Layout:
    """Places for a whole graph."""
    first = _Pass(graph, machine, {}, {}).run()
    homes = _join_homes(graph, first)
    return _Pass(graph, machine, first.orders, homes).run() if homes else first


def dense_order(place: Place) -> Order:
    """Dimensions from the largest stride to the smallest."""
    return tuple(sorted(range(len(place.shape)), key=lambda j: (-abs(place.strides[j]), j)))


@dataclass
class Roles:
    """The loops of a contraction: which operand stays in the plane and what every loop does."""

    stationary: int
    batch: list[int]
    rows: list[int]
    columns: list[int]
    inner: list[int]


def roles(node: Compute, graph: Graph) -> Roles:
    """A constant operand is stationary, else the second one."""
    stationary = 0 if node.operands[0].value in graph.constants and node.operands[1].value not in graph.constants else 1
    moving = 1 - stationary
    uses = [_used(node, 0), _used(node, 1)]
    result = Roles(stationary, [], [], [], list(range(node.parallel, len(node.loops))))
    for i in range(node.parallel):
        if uses[stationary][i] and uses[moving][i]:
            result.batch.append(i)
        elif uses[stationary][i]:
            result.columns.append(i)
        else:
            result.rows.append(i)
    return result


def _used(node: Compute, operand: int) -> list[bool]:
    matrix = node.operands[operand].access.matrix
    return [any(row[i] for row in matrix) for i in range(len(node.loops))]


def loop_strides(place: Place, node: Compute, operand: int) -> list[int]:
    """Bytes between neighbours along every loop of the node, for one operand."""
    matrix = node.operands[operand].access.matrix
    return [abs(sum(s * row[i] for s, row in zip(place.strides, matrix, strict=True))) for i in range(len(node.loops))]


class _Pass:
    def __init__(self, graph: Graph, machine: Machine, orders: dict[str, Order], homes: dict[str, tuple[str, int]]):
        self.graph, self.machine, self.homes = graph, machine, homes
        self.known = orders
        self.out = Layout()

    def run(self) -> Layout:
        graph = self.graph
        for name in graph.inputs:
            self._own(name, tuple(range(len(graph.types[name].shape))))
        for state in graph.states:
            self._own(state.input, tuple(range(len(graph.types[state.input].shape))))
            self.out.states.add(state.input)
        for name in graph.constants:
            t = graph.types[name]
            self.out.places[name] = Place(name, t.dtype, t.shape, 0, row_major(t.shape, t.dtype.size))
            self.out.roots[name] = ()
        for node in graph.nodes:
            self._node(node)
        return self.out

    def _node(self, node: Node) -> None:
        shape = self.graph.types[node.output].shape
        source = self.out.places.get(reads_of(node)[0]) if reads_of(node) else None
        if isinstance(node, View) and source is not None and node.operand.access.stays_inside(source.shape, shape):
            self._alias(node, source.through(node.operand.access, shape))
        elif isinstance(node, Reshape) and source is not None:
            place = source.reshaped(shape)
            if place is not None:
                self._alias(node, place)
            else:
                self.out.copies.add(node.output)
                self._own(node.output, tuple(range(len(shape))))
        elif isinstance(node, Join):
            self._join(node)
        elif isinstance(node, Merge):
            self._merge(node)
        else:
            if isinstance(node, View):
                self.out.copies.add(node.output)
            self._own(node.output, *self._order(node))

    def _alias(self, node: Node, place: Place) -> None:
        self.out.places[node.output] = place
        self.out.roots[node.output] = self.out.roots[reads_of(node)[0]]

    def _join(self, node: Join) -> None:
        name = node.output
        if name not in self.out.places:
            order = self.out.orders.get(node.parts[0]) or dense_order(self.out.places[node.parts[0]])
            self._own(name, order)
        pieces = [r for p in node.parts if self.out.joined.get(p) == name for r in self.out.roots[p]]
        whole = all(self.out.joined.get(p) == name for p in node.parts)
        self.out.roots[name] = tuple(dict.fromkeys(pieces)) if whole else tuple(dict.fromkeys([*pieces, name]))

    def _merge(self, node: Merge) -> None:
        """A buffer that every part is written to, or copied to, under its guard."""
        name, first = node.output, node.parts[0][1]
        if name not in self.out.places:
            self._own(name, self.out.orders.get(first) or dense_order(self.out.places[first]))
        pieces = [r for _, p in node.parts if self.out.joined.get(p) == name for r in self.out.roots[p]]
        self.out.roots[name] = tuple(dict.fromkeys([*pieces, name]))

    def _own(self, name: str, order: Order, row: int = 0) -> None:
        """A buffer of its own (or the piece of a join's); ``row``: innermost dimensions padded to whole lines."""
        t = self.graph.types[name]
        if name in self.homes:
            self._piece(name)
            return
        pitch = (row, self.machine.line_bytes) if row else None
        strides = ordered_strides(t.shape, order, t.dtype.size, pitch)
        self.out.orders[name] = order
        self.out.places[name] = Place(name, t.dtype, t.shape, 0, strides)
        self.out.roots[name] = (name,)
        self.out.buffers[name] = self._lines(strides, t.shape, t.dtype)

    def _lines(self, strides: tuple[int, ...], shape: tuple[int, ...], dtype: DType) -> int:
        if prod(shape) == 0:
            return 0
        reach = dtype.size + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        return self.machine.lines(reach) * self.machine.line_bytes

    def _piece(self, name: str) -> None:
        home, at = self.homes[name]
        if home not in self.out.places:
            self._own(home, self.known[home])
        whole = self.out.places[home]
        axis = next((n.axis for n in self.graph.nodes if n.output == home and isinstance(n, Join)), None)
        t = self.graph.types[name]
        offset = whole.offset + (0 if axis is None else at * whole.strides[axis])
        self.out.places[name] = Place(whole.buffer, t.dtype, t.shape, offset, whole.strides)
        self.out.orders[name] = self.known[home]
        self.out.roots[name] = (name,)
        self.out.joined[name] = home

    def _order(self, node: Node) -> tuple[Order, int]:
        """Storage order of a node's result and how many innermost dimensions form a padded row."""
        if isinstance(node, Compute):
            if node.is_contraction:
                return self._contraction_order(node)
            return self._follow(node), 0
        if isinstance(node, View):
            place = self.out.places[node.operand.value]
            strides = [
                abs(sum(s * row[i] for s, row in zip(place.strides, node.operand.access.matrix, strict=True)))
                for i in range(len(self.graph.types[node.output].shape))
            ]
            return _ordered(list(range(len(strides))), strides), 0
        return tuple(range(len(self.graph.types[node.output].shape))), 0

    def _contraction_order(self, node: Compute) -> tuple[Order, int]:
        r = roles(node, self.graph)
        moving = node.operands[1 - r.stationary]
        strides = loop_strides(self.out.places[moving.value], node, 1 - r.stationary)
        outer = list(_ordered(sorted(r.batch + r.rows), strides))
        dtype = self.graph.types[node.output].dtype
        width = prod(node.loops[i] for i in r.columns)
        tile = self.machine.matrix.tiles.get(factor_types(node)[1 - r.stationary].value, (0, 0))[1]
        # Planes write neighbouring columns, or neighbouring products of a batch, at the same time: not into one line.
        shared = width > tile or (r.batch and node.operands[r.stationary].value not in self.graph.constants)
        pad = len(r.columns) if shared and (width * dtype.size) % self.machine.line_bytes else 0
        return tuple(outer + r.columns), pad

    def _follow(self, node: Compute) -> Order:
        if not node.operands:
            return tuple(range(node.parallel))
        variable = [i for i, o in enumerate(node.operands) if o.value not in self.graph.constants]
        largest = max(variable or [0], key=lambda i: (self.graph.types[node.operands[i].value].elements, -i))
        strides = loop_strides(self.out.places[node.operands[largest].value], node, largest)
        return _ordered(list(range(node.parallel)), strides)


def _ordered(loops: list[int], strides: list[int]) -> Order:
    """Loops from the largest stride to the smallest; one that the operand does not use follows its left neighbour."""
    order = sorted((i for i in loops if strides[i]), key=lambda i: (-strides[i], i))
    for at, loop in enumerate(loops):
        if not strides[loop]:
            order.insert(order.index(loops[at - 1]) + 1 if at else 0, loop)
    return tuple(order)


def factor_types(node: Compute) -> tuple[DType, DType]:
    """Element types of a contraction's two factors."""
    first, second, _ = node.expr.steps
    return (first.dtype, second.dtype) if first.imm == 0 else (second.dtype, first.dtype)


def _join_homes(graph: Graph, first: Layout) -> dict[str, tuple[str, int]]:
    """Pieces that can be written straight into a join's buffer: piece -> (join, position along its axis)."""
    made = {
        n.output
        for n in graph.nodes
        if isinstance(n, Compute | Gather | Scatter | Sort | Join) or n.output in first.copies
    }
    made -= {n.output for n in graph.nodes if isinstance(n, Reshape)}
    made -= {state.input for state in graph.states}
    made -= {n.output for n in graph.nodes if isinstance(n, Join)}
    maker = {n.output: n for n in graph.nodes}
    homes = _merge_homes(graph, made, maker)
    for node in graph.nodes:
        if not isinstance(node, Join):
            continue
        at = 0
        for piece in node.parts:
            if piece in made and piece not in homes and node.parts.count(piece) == 1:
                read = {root for value in reads_of(maker[piece]) for root in first.roots[value]}
                # It may not share lines with its operands.
                if not any(root in node.parts or homes.get(root, ("",))[0] == node.output for root in read):
                    homes[piece] = (node.output, at)
            at += graph.types[piece].shape[node.axis]
    return homes


def _merge_homes(graph: Graph, made: set[str], maker: dict[str, Node]) -> dict[str, tuple[str, int]]:
    """Parts of merges that nobody else reads and that are computed exactly when they count: part -> (merge, 0)."""
    uses = Counter(v for node in graph.nodes for v in reads_of(node))
    return {
        value: (node.output, 0)
        for node in graph.nodes
        if isinstance(node, Merge)
        for guard, value in node.parts
        if guard is not None and value in made and uses[value] == 1 and maker[value].guard == guard
    }
