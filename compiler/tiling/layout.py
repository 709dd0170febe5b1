"""Bufferisation: every value gets a place; views and most reshapes cost nothing, joined pieces are written where they go.

Storage order: what is cheapest for a contraction and its readers, everything else follows its largest operand. Two passes:
the first finds the orders, the second places the pieces of joins inside the joined buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from compiler.costs import roles
from compiler.ir import Compute, DType, Graph, Join, Merge, Node, Reshape, Scatter, View, reads_of
from compiler.isa import Machine
from compiler.passes.rewriter import fresh
from compiler.tiling import concat, join_order, uses
from compiler.tiling.halo import along_lines, halo
from compiler.tiling.input_overlap import InputOverlap
from compiler.tiling.place import Place, ordered_strides, row_major
from compiler.tiling.readers import Order, dense_order, follow, ordered
from compiler.tiling.stationary import Dataflow, DataflowSelector, Pitch, padded

IMAGE = 2  # dimensions of an image; those of an input lie one behind the other
CHANNELS = 1  # and one more of what lies side by side in it
WASTE = 8  # part of a row of pixels that may be padding behind it


@dataclass
class Layout:
    """Places of all values that are not constants, and the buffers that hold them.

    ``roots``: for every value the values whose writers it is made of (an alias has those of what it names).
    ``states``: buffers that persist. ``pitches``: how the rows of a value are padded. Sizes are whole lines.
    """

    places: dict[str, Place] = field(default_factory=dict)
    roots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)
    states: set[str] = field(default_factory=set)
    orders: dict[str, Order] = field(default_factory=dict)
    pitches: dict[str, Pitch] = field(default_factory=dict)
    halos: dict[str, int] = field(default_factory=dict)  # pixels by which blocks end early
    bases: dict[str, str] = field(default_factory=dict)  # of scatters: the copy of the data that one writes over
    joined: dict[str, str] = field(default_factory=dict)  # piece -> join whose buffer holds it
    turned: set[str] = field(default_factory=set)  # joins whose axis is outermost for the sake of narrow parts
    copies: set[str] = field(default_factory=set)  # nodes (by output) that need a copy
    dataflows: dict[str, Dataflow] = field(default_factory=dict)  # of contractions, by output
    needed_whole: dict[str, frozenset[int]] = field(default_factory=dict)  # dimensions that readers reduce, by value
    following: set[str] = field(default_factory=set)  # results made while the inputs come in
    deep: dict[str, tuple[int, int]] = field(default_factory=dict)  # dimension that few rows are summed along, in tiles


def assign(graph: Graph, machine: Machine, *, following: bool = True) -> Layout:
    """Places for a whole graph. ``following``: planes may lose cycles in order to follow an image that comes in."""
    first = _Pass(graph, machine, Layout(), {}).run()
    homes = concat.homes(graph, first.copies, first.roots)
    found = _Pass(graph, machine, first, homes).run() if homes else first
    found.following = found.following if following else set()
    found.needed_whole = uses.needed_whole(graph)
    found.deep = uses.summed_in_tiles(graph, machine, found.dataflows)
    return found


class _Pass:
    def __init__(self, graph: Graph, machine: Machine, known: Layout, homes: concat.Homes):
        self.graph, self.machine, self.homes = graph, machine, homes
        self.before, self.known, self.pitches, self.halos = known, known.orders, known.pitches, known.halos
        self.stored = {n.output: n.input for n in graph.nodes if isinstance(n, Reshape)}
        self.reshaped = set(self.stored.values())
        self.joins = {n.output: n for n in graph.nodes if isinstance(n, Join)}
        self.kept = concat.written_in_place(graph)
        self.scattered = {n.output for n in graph.nodes if isinstance(n, Scatter)}
        self.scalars = uses.scalars(graph)
        self.out = Layout(dataflows=known.dataflows)
        self.selector = DataflowSelector(graph, machine, self.out.places, InputOverlap(graph, machine))

    def run(self) -> Layout:
        graph = self.graph
        for name in graph.inputs:
            order = tuple(range(len(graph.types[name].shape)))
            self._own(name, order, self._planes(name, order, IMAGE) if len(order) > IMAGE + 1 else None)
        for state in graph.states:
            self._own(state.input, tuple(range(len(graph.types[state.input].shape))))
            self.out.states.add(state.input)
        for name in graph.constants:
            t = graph.types[name]
            self.out.places[name] = Place(name, t.dtype, t.shape, 0, row_major(t.shape, t.dtype.size))
            self.out.roots[name] = ()
        for node in graph.nodes:
            self._node(node)
        self.out.following = {n.output for n in graph.nodes if self.selector.overlap.during(n.output)}
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
        elif node.output in self.kept:
            self.out.places[node.output] = self.out.places[self.kept[node.output]]
            self.out.roots[node.output] = (node.output,)
            self._base(node.output)
        else:
            if isinstance(node, View):
                self.out.copies.add(node.output)
            self._own(node.output, *self._order(node), self._lead(node))

    def _alias(self, node: Node, place: Place) -> None:
        self.out.places[node.output] = place
        self.out.roots[node.output] = self.out.roots[reads_of(node)[0]]

    def _join(self, node: Join) -> None:
        name = node.output
        if name not in self.out.places:
            self._own(name, self._joined_order(node))
        self.out.halos.setdefault(name, max(self.out.halos.get(part, 0) for part in node.parts))
        pieces = [r for p in node.parts if self.out.joined.get(p) == name for r in self.out.roots[p]]
        whole = all(self.out.joined.get(p) == name for p in node.parts)
        self.out.roots[name] = tuple(dict.fromkeys(pieces)) if whole else tuple(dict.fromkeys([*pieces, name]))

    def _joined_order(self, node: Join) -> Order:
        """The storage order of a join: that of its leading part, but for an axis that is free or goes outside."""
        part = self.selector.readers.leading(node)
        order = self.out.orders.get(part) or dense_order(self.out.places[part])
        if all(self.graph.types[p].shape[node.axis] == 1 for p in node.parts):  # where the axis lies is free in a part
            return _beside(order, node.axis)
        if join_order.axis_first(node, order, self.selector, self.machine):
            self.out.turned.add(node.output)
            return (node.axis, *(i for i in order if i != node.axis))
        return order

    def _merge(self, node: Merge) -> None:
        """A buffer that every part is written to, or copied to, under its guard."""
        name, first = node.output, node.parts[0][1]
        if name not in self.out.places:
            self._own(name, self.out.orders.get(first) or dense_order(self.out.places[first]))
        pieces = [r for _, p in node.parts if self.out.joined.get(p) == name for r in self.out.roots[p]]
        self.out.roots[name] = tuple(dict.fromkeys([*pieces, name]))

    def _lead(self, node: Node) -> int:
        """Elements before each row of a contraction's result, where its columns lie along lines."""
        side = self.out.dataflows.get(node.output)
        if not isinstance(node, Compute) or side is None or node.output in self.reshaped:
            return 0
        if not self.selector.overlap.during(node.output):
            return 0
        found = halo(node, side, self.graph, self.machine, self.out.halos)
        if found is None:
            return 0
        self.out.halos[node.output] = found
        return found if along_lines(node, side) else 0

    def _own(self, name: str, order: Order, pitch: Pitch = None, lead: int = 0) -> None:
        """A buffer of its own (or the piece of a join's)."""
        t = self.graph.types[name]
        if name in self.homes and self._piece(name):
            return
        before = lead * t.dtype.size if pitch else 0
        strides = ordered_strides(t.shape, order, t.dtype.size, pitch, before)
        self.out.orders[name], self.out.pitches[name] = order, pitch
        self.out.places[name] = Place(name, t.dtype, t.shape, before, strides)
        self.out.roots[name] = self._roots(name)
        self.out.buffers[name] = self._lines(before, strides, t.shape, t.dtype)

    def _roots(self, name: str) -> tuple[str, ...]:
        """What a scatter does not write over is written by the copy of its data."""
        return (name, self._base(name)) if name in self.scattered else (name,)

    def _base(self, name: str) -> str:
        """The name of the data that a scatter writes over."""
        return self.out.bases.setdefault(name, fresh(f"{name}~base", self.graph.types))

    def _lines(self, before: int, strides: tuple[int, ...], shape: tuple[int, ...], dtype: DType) -> int:
        if prod(shape) == 0:
            return 0
        reach = before + dtype.size + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        return self.machine.lines(reach) * self.machine.line_bytes

    def _piece(self, name: str) -> bool:
        """Place a part of a join in the joined buffer; False where it cannot be written there."""
        home, path = self.homes[name].value, self.homes[name].path
        part = path[-1].output if path else name
        if not self._may_lie_in(name, part):
            return False
        if home not in self.out.places:
            pitch = self._joined_pitch(home)
            self._own(home, self.known[home], pitch, self._joined_halo(home) if pitch else 0)
        place = self._within(name, part)
        if place is None:
            return False
        self.out.places[name] = place
        self.out.orders[name] = dense_order(place) if path else self.out.orders[home]
        self.out.roots[name] = self._roots(name)
        self.out.joined[name] = self.out.joined[part] = home
        if home in self.out.halos:  # all parts of a row begin where it does
            self.out.halos[name] = self.out.halos[home]
        return True

    def _may_lie_in(self, name: str, part: str) -> bool:
        """Whether a part can be stored in the order of its concat."""
        home, _, path, beside, _ = self.homes[name]
        if home in self.before.turned:
            return True
        return not beside and (not (path or name in self.joins) or self._is_ordered(part, home))

    def _within(self, name: str, part: str) -> Place | None:
        """Where in the joined buffer a part is written; None where no strides say that, or it would share lines with what
        it is made of, or what others wait for."""
        home, at, path, beside, read = self.homes[name]
        whole, t = self.out.places[home], self.graph.types[part]
        axis = self.joins[home].axis if home in self.joins else None
        offset = whole.offset + (at * whole.strides[axis] if axis is not None else 0)
        if (beside or read) and axis is not None:
            line = self.machine.line_bytes
            if offset % line or whole.strides[axis] * t.shape[axis] % line:
                return None
        place = concat.unnamed(Place(whole.buffer, t.dtype, t.shape, offset, whole.strides), path, self.graph)
        if place is None or path or name not in self.stored:
            return place
        shape = self.graph.types[self.stored[name]].shape  # a reshape that has to be stored
        return None if place.reshaped(shape) is None else place

    def _is_ordered(self, part: str, home: str) -> bool:
        """Whether a part lies by itself in the order of the joined value."""
        place = self.before.places[part]
        wide = [j for j, n in enumerate(place.shape) if n > 1]
        return [j for j in dense_order(place) if j in wide] == [j for j in self.known[home] if j in wide]

    def _joined_pitch(self, home: str) -> Pitch:
        """The padding that the parts of a join would have by themselves, where they lie one behind the other outside it."""
        node = self.joins.get(home)
        if node is None or home in self.reshaped:
            return None
        order = self.known[home]
        found = {self.pitches.get(part) for part in node.parts if self.known.get(part) == order}
        pitch = next(iter(found)) if len(found) == 1 else None
        if not pitch or node.axis not in order[-pitch[0] :]:
            return pitch
        return pitch if pitch[0] > 1 and node.axis == order[-1] and pitch[1] == self.machine.line_bytes else None

    def _joined_halo(self, home: str) -> int:
        """The largest lead of the parts of a join, which then all of them have; 0 where one of them may have none."""
        parts = self.joins[home].parts
        makers = [n for n in self.graph.nodes if n.output in parts and n.output in self.halos]
        beside = [isinstance(n, Compute) and along_lines(n, self.out.dataflows[n.output]) for n in makers]
        if len(makers) < len(parts) or not all(beside):
            return 0
        self.out.halos[home] = max(self.halos[part] for part in parts)
        return self.out.halos[home]

    def _followed(self, node: Compute, order: Order) -> Pitch:
        """The padding of what a map or a reduction reads, for its result."""
        largest = max(node.operands, key=lambda o: self.graph.types[o.value].elements, default=None)
        pitch = self.out.pitches.get(largest.value) if largest else None
        if node.output in self.scalars:
            return self._spread(node)
        if pitch and 0 < pitch[0] < len(order):
            return self._planes(node.output, order, pitch[0])
        return self._row_by_row(node.output, order)

    def _spread(self, node: Compute) -> Pitch:
        """Few results over several lines, each line with the same number of them; None where they fill as many anyway."""
        size, line = self.graph.types[node.output].dtype.size, self.machine.line_bytes
        most = line // size
        each = next((n for n in range(1, most) if most % n == 0 and n * uses.SPREAD >= node.points), most)
        return (0, line // each) if each < most and node.points > each else None

    def _rows(self, node: Compute, side: Dataflow) -> Pitch:
        """The padding of an image that moves through the planes row by row."""
        wide = [i for i in side.order if node.loops[i] > 1]
        if not set(wide[-CHANNELS - IMAGE : -CHANNELS]) <= set(roles(node, side.stationary).rows):
            return None
        return self._row_by_row(node.output, side.order)

    def _row_by_row(self, name: str, order: Order) -> Pitch:
        """Rows of an image with its channels side by side end on a line, so that a row is a tile of its own: where layers
        follow an image that comes in."""
        t, line = self.graph.types[name], self.machine.line_bytes
        wide = [at for at, i in enumerate(order) if t.shape[i] > 1]
        if len(wide) < CHANNELS + IMAGE or name in self.reshaped or not self.selector.overlap.during(name):
            return None
        at = wide[-CHANNELS - 1]
        row = prod(t.shape[i] for i in order[at:]) * t.dtype.size
        padded = -row % line
        return (len(order) - at, line) if row >= line and 0 < padded <= row // WASTE else None

    def _planes(self, name: str, order: Order, dims: int) -> Pitch:
        """Planes of ``dims`` dimensions that end on a line, so that pieces of one do not wait for pieces of the next."""
        t, line = self.graph.types[name], self.machine.line_bytes
        extent = prod(t.shape[i] for i in order[-dims:]) * t.dtype.size
        unit = line if extent > line else padded(extent, line)
        return None if name in self.reshaped or not extent or extent % unit == 0 else (dims, unit)

    def _order(self, node: Node) -> tuple[Order, Pitch]:
        """Storage order of a node's result and the padding of its rows."""
        if isinstance(node, Compute):
            if node.is_contraction:
                side = self.out.dataflows.get(node.output) or self.selector.choose(node)
                self.out.dataflows[node.output] = side
                return side.order, side.pitch or self._rows(node, side)
            order = follow(node, self.out.places, self.graph, self.machine)
            return order, self._followed(node, order)
        if isinstance(node, View):
            place = self.out.places[node.operand.value]
            strides = [
                abs(sum(s * row[i] for s, row in zip(place.strides, node.operand.access.matrix, strict=True)))
                for i in range(len(self.graph.types[node.output].shape))
            ]
            return ordered(list(range(len(strides))), strides), None
        return tuple(range(len(self.graph.types[node.output].shape))), None


def _beside(order: Order, axis: int) -> Order:
    """The order with ``axis`` next to the dimension on its left: a reshape that makes one of the two then costs nothing."""
    rest = [i for i in order if i != axis]
    at = rest.index(axis - 1) + 1 if axis else 0
    return (*rest[:at], axis, *rest[at:])
