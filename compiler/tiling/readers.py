"""What the storage order of a value costs those who read it: on the planes, on the vector unit, on the links.

Maps, joins, views and reshapes pass an order on, so the readers of what they make count too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from compiler.costs import vector_stages
from compiler.ir import Compute, Graph, Join, Node, Reshape, View
from compiler.ir.works import Works
from compiler.isa import Loop, Machine, Nest, Stream
from compiler.isa.geometry import touches
from compiler.tiling.place import Place, ordered_strides

Order = tuple[int, ...]
PORTS = "abcd"
FAR = 24  # readers that are priced: a value that everybody reads is a matter of the first of them


def loop_strides(place: Place, node: Compute, operand: int) -> list[int]:
    """Bytes between neighbours along every loop of the node, for one operand."""
    return [abs(step) for step in place.along(node.operands[operand].access, len(node.loops))]


def ordered(loops: list[int], strides: list[int]) -> Order:
    """Loops from the largest stride to the smallest; one that the operand does not use follows its left neighbour."""
    order = sorted((i for i in loops if strides[i]), key=lambda i: (-strides[i], i))
    for at, loop in enumerate(loops):
        if not strides[loop]:
            order.insert(order.index(loops[at - 1]) + 1 if at else 0, loop)
    return tuple(order)


def dense_order(place: Place) -> Order:
    """Dimensions from the largest stride to the smallest."""
    return tuple(sorted(range(len(place.shape)), key=lambda j: (-abs(place.strides[j]), j)))


def nest(node: Compute, strides: list[int], loops: list[int] | Order) -> Nest:
    """Loops of a node with their strides."""
    return tuple(Loop(node.loops[i], strides[i]) for i in loops)


def fetches(size: int, g1: Nest, g2: Nest, counts: tuple[int, int], line: int) -> int:
    """Line touches of the first ``counts`` points of two nests."""
    return touches(Stream("u8" if size == 1 else "f32", 0, (), g1, g2), (0, counts[0]), (0, counts[1]), line)


def follow(node: Compute, places: Mapping[str, Place], graph: Graph, machine: Machine) -> Order:
    """The order in which a map or reduction is stored: that of the operand with which it takes the fewest cycles."""
    variable = [i for i, o in enumerate(node.operands) if o.value not in graph.constants and o.value in places]
    variable.sort(key=lambda i: (-graph.types[node.operands[i].value].elements, i))
    parallel = list(range(node.parallel))
    if not variable:
        return tuple(parallel)
    largest = graph.types[node.operands[variable[0]].value].elements
    orders = dict.fromkeys(
        ordered(parallel, loop_strides(places[node.operands[i].value], node, i))
        for i in variable
        if graph.types[node.operands[i].value].elements == largest
    )
    if len(orders) == 1:
        return next(iter(orders))
    return min(orders, key=lambda order: vector_cycles(node, order, places, graph, machine))


def vector_cycles(node: Compute, order: Order, places: Mapping[str, Place], graph: Graph, machine: Machine) -> int:
    """About how long the vector unit takes for a node whose result is stored in ``order``."""
    vector, line = machine.vector, machine.line_bytes
    inner = list(range(node.parallel, len(node.loops)))
    work = vector_stages(node, machine)[0]
    most = -(-node.points * node.reduction * work // max(1, vector.lanes))
    for port, (i, o) in zip(PORTS, enumerate(node.operands), strict=False):
        place = places.get(o.value)
        if place is None or o.value in graph.constants:
            continue
        strides = loop_strides(place, node, i)
        counts = node.points, node.reduction
        lines = fetches(place.dtype.size, nest(node, strides, order), nest(node, strides, inner), counts, line)
        most = max(most, -(-lines // max(1, vector.ports.get(port, 1))))
    return most // max(1, vector.instances)


@dataclass(frozen=True)
class Reader:
    """A node that reads ``value``, which is the root's elements in the order in which ``path`` passes them on."""

    node: Compute
    value: str
    path: tuple[Node, ...]


class Readers:
    """By value, who reads it or what follows from it. ``sent``: likewise the outputs of the graph."""

    def __init__(self, graph: Graph, machine: Machine, places: Mapping[str, Place]) -> None:
        self.graph, self.machine, self.places = graph, machine, places
        self.works = Works(graph)
        self.found: dict[str, list[Reader]] = {}
        self.origin: dict[str, tuple[str, tuple[Node, ...]]] = {}
        self.joined: dict[str, str] = {}  # root of a part of a join -> root of its leading part
        self.chosen: dict[str, Order] = {}  # of contractions, by output
        self.reshaped = {n.input for n in graph.nodes if isinstance(n, Reshape)}
        for node in graph.nodes:
            self._meet(node)
        self.sent: dict[str, list[tuple[str, tuple[Node, ...]]]] = {}
        for name in graph.outputs:
            root, path = self.root(name)
            self.sent.setdefault(root, []).append((name, path))

    def root(self, value: str) -> tuple[str, tuple[Node, ...]]:
        """The value whose order this one follows, and the nodes between."""
        return self.origin.get(value, (value, ()))

    def leading(self, node: Join) -> str:
        """The part whose order a join has: the first of those that are made of most elements, whatever repeats these."""
        return max(node.parts, key=lambda part: self.graph.types[self.root(part)[0]].elements)

    def _meet(self, node: Node) -> None:
        if isinstance(node, Join):
            root, path = self.root(self.leading(node))
            self.origin[node.output] = root, (*path, node)
            for part in node.parts:
                other = self.root(part)[0]
                if other != root:
                    self.joined.setdefault(other, root)
        elif isinstance(node, View | Reshape):
            root, path = self.root(node.operand.value if isinstance(node, View) else node.input)
            self.origin[node.output] = root, (*path, node)
        elif isinstance(node, Compute):
            self._compute(node)

    def _compute(self, node: Compute) -> None:
        types, constants = self.graph.types, self.graph.constants
        variable = list(dict.fromkeys(o.value for o in node.operands if o.value not in constants))
        for value in variable:
            root, path = self.root(value)
            if types[value].elements > 1:
                self.found.setdefault(root, []).append(Reader(node, value, path))
        if node.reducer is None and variable:
            largest = max(variable, key=lambda v: types[v].elements)
            if types[largest].elements > 1:
                root, path = self.root(largest)
                self.origin[node.output] = root, (*path, node)

    def around(self, root: str) -> tuple[object, ...]:
        """All that ``cost`` goes by but for ``home``: equal for values whose readers do the same work at the same places."""
        passed: dict[str, int] = {}  # nodes on the way, by output: what several readers share is one
        readers = tuple(
            (self.works.of(r.node), self._way(root, r.path, passed), self._laid(r.node, r.value))
            for r in self.found.get(root, [])[:FAR]
        )
        return readers, tuple(self._way(root, path, passed) for _, path in self.sent.get(root, []))

    def _way(self, root: str, path: tuple[Node, ...], passed: dict[str, int]) -> tuple[object, ...]:
        """What a path is made of; ``passed``: numbers of the nodes on all paths so far."""
        found: list[object] = []
        for at, node in enumerate(path):
            laid: object = None
            if isinstance(node, Compute):
                laid = self._laid(node, self._followed(node, root, path[:at]))
            found.append((passed.setdefault(node.output, len(passed)), self.works.of(node), laid))
        return tuple(found)

    def _laid(self, node: Compute, value: str) -> tuple[object, ...]:
        """By operand where it lies, or the order in which it is expected to; ``value``: the one whose place is asked about."""
        found: list[object] = []
        for operand in node.operands:
            if operand.value == value or operand.value in self.graph.constants:
                found.append(operand.value == value)
            elif operand.value in self.places:
                found.append((self.places[operand.value].strides, "there"))
            else:
                found.append((self.chosen.get(self.root(operand.value)[0]), "expected"))
        return tuple(found)

    def _followed(self, node: Compute, root: str, path: tuple[Node, ...]) -> str:
        """The operand of a map that the path behind ``root`` leads to."""
        return next(o.value for o in node.operands if self.root(o.value) == (root, path))

    def cost(self, value: str, home: Place, contraction: Callable[[Compute, dict[str, Place]], int | None]) -> int:
        """Cycles of all readers of a value at ``home``; ``contraction``: those of one that may go to the planes."""
        known: dict[str, Place | None] = {value: home}
        copied: set[str] = set()
        total = 0
        root, before = self.root(value)
        readers = [r for r in self.found.get(root, []) if r.path[: len(before)] == before]
        for reader in readers[:FAR]:
            place = self._along(reader.path[len(before) :], known, copied)
            if place is None:
                continue
            on_planes = contraction(reader.node, {reader.value: place})
            if on_planes is not None:
                total += on_planes
            else:
                total += self._vector(reader.node, {**self.places, reader.value: place})
        for _name, path in self.sent.get(root, []):
            if path[: len(before)] != before:
                continue
            place = self._along(path[len(before) :], known, copied)
            if place is None:  # behind a copy it lies as it is sent
                place = self._dense(path[-1], tuple(range(len(self.graph.types[path[-1].output].shape))))
            total += self._link(place)
        return total + sum(self._copy(value) for value in sorted(copied))

    def _vector(self, node: Compute, places: Mapping[str, Place]) -> int:
        met = {o.value: place for o in node.operands if (place := self._expected(o.value, places)) is not None}
        order = follow(node, {**places, **met}, self.graph, self.machine)
        return vector_cycles(node, order, {**places, **met}, self.graph, self.machine)

    def _expected(self, value: str, places: Mapping[str, Place]) -> Place | None:
        """Where a value will lie that has no place yet, if it has the order of a contraction for which that is chosen."""
        t, order = self.graph.types[value], self.chosen.get(self.root(value)[0])
        if value in places or order is None or len(order) != len(t.shape):
            return None
        return Place(value, t.dtype, t.shape, 0, ordered_strides(t.shape, order, t.dtype.size))

    def _along(self, path: tuple[Node, ...], known: dict[str, Place | None], copied: set[str]) -> Place | None:
        """Where what the path makes lies; ``copied`` collects reshapes that need a copy."""
        place = next(iter(known.values()))
        for node in path:
            if node.output not in known:
                known[node.output] = self._step(node, place, copied) if place is not None else None
            place = known[node.output]
        return place

    def _step(self, node: Node, place: Place, copied: set[str]) -> Place | None:
        t = self.graph.types[node.output]
        if isinstance(node, View):
            inside = node.operand.access.stays_inside(place.shape, t.shape)
            return place.through(node.operand.access, t.shape) if inside else None
        if isinstance(node, Reshape):
            shaped = place.reshaped(t.shape)
            if shaped is None:
                copied.add(node.output)
                return self._dense(node, tuple(range(len(t.shape))))  # who reads costs what it costs behind a copy
            return shaped
        if isinstance(node, Join):
            return self._dense(node, dense_order(place))
        assert isinstance(node, Compute)
        root, path = self.root(node.output)
        value = self._followed(node, root, path[:-1])
        return self._dense(node, follow(node, {**self.places, value: place}, self.graph, self.machine))

    def _dense(self, node: Node, order: Order) -> Place:
        t = self.graph.types[node.output]
        return Place(node.output, t.dtype, t.shape, 0, ordered_strides(t.shape, order, t.dtype.size))

    def _link(self, place: Place) -> int:
        """Cycles of the link for an output that lies there."""
        loops = tuple(Loop(n, abs(s)) for n, s in zip(place.shape, place.strides, strict=True))
        count = fetches(1, loops, (), (prod(place.shape), 1), self.machine.line_bytes)
        return count // max(1, self.machine.link_out.ports.get("a", 1))

    def _copy(self, value: str) -> int:
        unit = self.machine.move
        size = self.graph.types[value].bytes
        return 2 * size // (self.machine.line_bytes * max(1, unit.ports.get("a", 1))) + unit.latency
