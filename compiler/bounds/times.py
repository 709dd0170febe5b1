"""Earliest times and least remaining times of operations: the heads and tails of the latency bound.

``first``: no element of a value can be read before. ``ready(box)``: no box of that many elements of a value is complete
before. ``start``: no unit can work on an operation (on data, not on padding) before. ``tail``: after the last unit-cycle of
an operation the program still lasts so long.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod

from compiler.bounds.barriers import Bodies
from compiler.bounds.demand import Demands
from compiler.bounds.shape import Box, always_reads, read_box, read_operands, unmixed
from compiler.bounds.work import Work, forms, on_planes
from compiler.ir.graph import (
    Compute,
    Gather,
    Graph,
    Join,
    Node,
    Operand,
    Reshape,
    Scatter,
    Sort,
    View,
    operands_of,
    reads_of,
)
from compiler.isa.machine import Machine
from compiler.isa.timing import ceil_div, tree_depth

NEAR = 64  # boxes that are followed back from an element, in search of what it needs all of


DEEP = 128  # operations behind each other that are followed for one box; the first element says something, too


class Times:
    """Heads and tails for one graph on one machine. Values that are constants or state are there from the beginning.

    ``planes``: outputs of contractions of which it is known that they run on the planes. ``counted``: forms of boxes that
    have been counted before, which several of these share.
    """

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        planes: frozenset[str] = frozenset(),
        counted: dict[tuple[str, Box], list[Work]] | None = None,
        demands: Demands | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        self.graph, self.machine, self.planes = graph, machine, planes
        self._counted = {} if counted is None else counted
        self._demands = Demands(graph) if demands is None else demands
        self._bodies = bodies
        self.makers = {node.output: node for node in graph.nodes}
        self.resident = set(graph.constants) | {s.input for s in graph.states}
        self._order = [node.output for node in graph.nodes]
        self._place = {name: at for at, name in enumerate(self._order)}
        self._whole_reads = {node.output: self._wholly(node) for node in graph.nodes}
        self._sure_reads = {node.output: self.always_read(node) for node in graph.nodes}
        self._latencies: dict[str, int] = {}
        self._always_read: dict[str, list[Operand]] = {}
        self._all_of: dict[str, dict[str, int]] = {}
        self._ready: dict[tuple[str, Box], int] = {}
        self._depth = 0
        self.start: dict[str, int] = {}
        self.first: dict[str, int] = dict.fromkeys(self.resident, 0)
        for name in graph.inputs:
            self.first[name] = 1 + machine.link_in.latency
        for node in graph.nodes:
            self._head(node)
        self.tail = self._tails()

    # -- heads ----------------------------------------------------------------------------------------------------------

    def latency(self, node: Node) -> int:
        """Cycles between a beat and the moment its result can be read, on the quickest unit that can do it."""
        found = self._latencies.get(node.output)
        if found is None:
            found = self._latencies[node.output] = self._least_latency(node)
        return found

    def _least_latency(self, node: Node) -> int:
        if isinstance(node, Gather):
            return self.machine.move.latency
        if not isinstance(node, Compute) or self.is_name(node):
            return 0
        vector = self.machine.vector.latency + self._tree(node)
        if node.output in self.planes:
            return self.machine.matrix.latency
        return min(vector, self.machine.matrix.latency) if on_planes(node, self.graph, self.machine) else vector

    def _tree(self, node: Compute) -> int:
        """Levels in which a vector unit reduces all that an element is made of; at a border it may be less."""
        cut = any(o.fill is not None for o in read_operands(node))
        return 0 if node.reducer is None or cut else tree_depth(node.reduction)

    def step(self, node: Node) -> int:
        """Cycles from the moment that an operand can be read to the moment that a result can."""
        quick = self.is_name(node) or isinstance(node, Scatter | Sort)
        return 0 if quick else 1 + self.latency(node)

    def is_name(self, node: Node) -> bool:
        """Whether the output may be the same memory as an input: no unit needs to touch it."""
        if isinstance(node, Compute):
            return node.reducer is None and node.post is None and node.expr.is_identity
        return not isinstance(node, Gather)

    def _head(self, node: Node) -> None:
        if isinstance(node, Scatter | Sort):  # an element may come from the data alone, or from any place of the input
            source = node.data if isinstance(node, Scatter) else node.input
            self.start[node.output] = self.first[node.output] = self.first[source]
            return
        if self.is_name(node):
            known = [self.first[v] for v, always in self._sure_reads[node.output] if always]
            none = not known or any(not always for _, always in self._sure_reads[node.output])
            self.first[node.output] = 0 if none else min(known)
            self.start[node.output] = self.first[node.output]
            return
        start = max((self.first[v] for v, always in self._sure_reads[node.output] if always), default=0)
        if isinstance(node, Compute) and node.output in self.planes:
            start = max(start, self._loaded(node))
        if isinstance(node, Compute) and node.reducer and not on_planes(node, self.graph, self.machine):
            start = max(start, *(self._operand_ready(node, o, (1,) * node.parallel) for o in self._pre(node)), 0)
        self.start[node.output] = start
        done = max((self._operand_ready(node, o, (1,) * self._rank(node)) for o in self._always(node)), default=0)
        self.first[node.output] = max(start, done) + 1 + self.latency(node)

    def _loaded(self, node: Compute) -> int:
        """When a plane can have weights from either factor, and something to multiply with them."""
        load = 1 + self.machine.weights.latency
        known = self._always(node)
        one, other = (self.first[o.value] if o in known else 0 for o in node.operands[:2])
        return min(max(one + load, other), max(one, other + load))

    def always_read(self, node: Node) -> list[tuple[str, bool]]:
        """Values that a node reads, and whether every output element depends on them."""
        if isinstance(node, Compute):
            return [(o.value, always_reads(o, self.graph, node.loops, node.parallel)) for o in read_operands(node)]
        if isinstance(node, View | Gather):
            return [(o.value, o.fill is None) for o in operands_of(node)]
        return [(value, True) for value in reads_of(node)]

    def _always(self, node: Node) -> list[Operand]:
        found = self._always_read.get(node.output)
        if found is None:
            found = list(operands_of(node))
            if isinstance(node, Compute):
                found = [o for o in read_operands(node) if always_reads(o, self.graph, node.loops, node.parallel)]
            self._always_read[node.output] = found
        return found

    def _pre(self, node: Compute) -> list[Operand]:
        wanted = {step.imm for step in node.expr.steps if step.op == "arg"}
        return [o for i, o in enumerate(node.operands) if i in wanted and o in self._always(node)]

    def _rank(self, node: Node) -> int:
        return len(self.graph.types[node.output].shape)

    def _operand_ready(self, node: Node, operand: Operand, box: Box) -> int:
        """When what ``box`` output points read through an operand is complete."""
        if operand.value in self.resident:
            return 0
        return self.ready(operand.value, self._read(node, operand, box))

    def _read(self, node: Node, operand: Operand, box: Box) -> Box:
        """The elements of an operand's value that ``box`` output points surely read, along each dimension."""
        if isinstance(node, Compute):
            loops, points = node.loops, (*box, *node.loops[node.parallel :])
            if operand.fill is not None:  # at the border less is read
                points = (*box, *(1,) * (len(node.loops) - node.parallel))
        else:
            loops, points = self.graph.types[node.output].shape, box
        return read_box(operand, self.graph, loops, points)

    def ready(self, value: str, box: Box) -> int:
        """No ``box`` (elements along each dimension) of the value is complete before this cycle."""
        key = (value, box)
        if key not in self._ready:
            if self._depth == DEEP:
                return self.first[value]
            self._depth += 1
            self._ready[key] = max(self.first[value], self._complete(value, box))
            self._depth -= 1
            if self._bodies is not None and box == self.graph.types[value].shape:
                self._ready[key] = max(self._ready[key], self._bodies.least(self._into(value)))
        return self._ready[key]

    def _into(self, value: str) -> dict[str, tuple[int, int]]:
        """Operations of which all is needed for the whole of a value: when they may begin, what lasts behind each."""
        left = {value: 0}  # value -> cycles from its last element to that of ``value``
        found: dict[str, tuple[int, int]] = {}
        for name in reversed(self._order[: self._place.get(value, -1) + 1]):
            if name not in left:
                continue
            node = self.makers[name]
            found[name] = self.start[name], left[name] + self.latency(node)
            for before, whole in self._whole_reads[name]:
                if whole:
                    left[before] = max(left.get(before, 0), left[name] + self.step(node))
        return found

    def _complete(self, value: str, box: Box) -> int:
        graph, machine = self.graph, self.machine
        if value in self.resident:
            return 0
        if value in graph.inputs:
            size = prod(box) * graph.types[value].dtype.size
            return ceil_div(size, machine.link_in.bytes_per_cycle * machine.link_in.instances) + machine.link_in.latency
        node = self.makers[value]
        if isinstance(node, Scatter | Sort):
            return self.first[value]
        if isinstance(node, Reshape):
            whole = box == graph.types[value].shape
            return self.ready(node.input, graph.types[node.input].shape) if whole else 0
        if isinstance(node, Join):
            whole = box == graph.types[value].shape
            return max(self.ready(p, graph.types[p].shape) for p in node.parts) if whole else 0
        inputs = max((self._operand_ready(node, o, box) for o in self._box_operands(node, box)), default=0)
        if self.is_name(node):
            return inputs
        own = self.start[value] + self._quickest(node, box) + self.latency(node)
        return max(own, inputs + 1 + self.latency(node))

    def _box_operands(self, node: Node, box: Box) -> list[Operand]:
        """Operands that a whole box surely reads; through a guard only when the box is the whole output."""
        if isinstance(node, Gather):
            return [o for o in node.indices if o is not None]
        if isinstance(node, View) and node.operand.fill is not None:
            return []
        return self._always(node)

    def _quickest(self, node: Node, box: Box) -> int:
        """Cycles for a box with all units at work, in the quickest form."""
        machine, key = self.machine, (node.output, box)
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = forms(node, self.graph, machine, box)
        if node.output in self.planes:
            found = [form for form in found if "matrix" in form]
        return min(
            int(max((w / machine.unit(u).instances for u, w in form.items() if u != "weights" and w), default=0))
            for form in found
        )

    # -- tails ----------------------------------------------------------------------------------------------------------

    def _tails(self) -> dict[str, int]:
        """By value: from the moment its last element can be read until the end of the program."""
        after: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for name in self.graph.outputs:
            after[name].append((1 + self.machine.link_out.latency, True))
        tail: dict[str, int] = {}
        for node in reversed(self.graph.nodes):
            tail[node.output] = _combine(after[node.output])
            share = self._demands.share(node.output)
            if not share:
                continue  # nothing follows what nobody asks for
            for value, whole in self._whole_reads[node.output]:
                after[value].append((tail[node.output] + self.step(node), whole and share == 1))
            self._barrier(node, tail, after)
        for name in self.graph.inputs:
            tail[name] = _combine(after[name])
        return tail

    def _barrier(self, node: Node, tail: dict[str, int], after: dict[str, list[tuple[int, bool]]]) -> None:
        """Behind the last element of what each of the node's elements needs all of comes the work of all that needs those."""
        if self._bodies is None:
            return
        wholes = self._wholes(node.output)
        for before, always in self._sure_reads[node.output]:
            if always and before in self.makers:  # what is behind that is more
                wholes = {value: way for value, way in wholes.items() if value not in self._wholes(before)}
        if not wholes:
            return
        rest = self._behind(node, tail)
        for value, way in wholes.items():
            after[value].append((way + rest, True))

    def _wholes(self, name: str) -> dict[str, int]:
        """Values all of which goes into every element of another, and the cycles from their last element to it."""
        if name in self._all_of:
            return self._all_of[name]
        node = self.makers[name]
        found = self._all_of[name] = {}
        boxes: list[tuple[Node, Box, int]] = [(node, (1,) * self._rank(node), 0)]
        seen: set[tuple[str, Box]] = set()
        while boxes:
            reader, box, way = boxes.pop()
            if not isinstance(reader, Compute) and not (isinstance(reader, View) and reader.operand.fill is None):
                continue
            way += self.step(reader)
            for o in self._always(reader):
                if o.value in self.resident:
                    continue
                read = self._read(reader, o, box)
                if read == self.graph.types[o.value].shape:
                    found[o.value] = max(found.get(o.value, 0), way)
                elif o.value in self.makers and (o.value, read) not in seen and len(seen) < NEAR:
                    seen.add((o.value, read))
                    boxes.append((self.makers[o.value], read, way))
        return found

    def _behind(self, node: Node, tail: dict[str, int]) -> int:
        """Cycles from the first element of a node's output to the end, by what depends on it with every element."""
        assert self._bodies is not None
        first = {node.output: 0}
        spans: dict[str, tuple[int, int]] = {}
        for name in self._order[self._place[node.output] + 1 :]:
            start = self._after(self.makers[name], first)
            if start is None:
                continue
            spans[name] = start, tail.get(name, 0) + self.latency(self.makers[name])
            first[name] = start + self.step(self.makers[name])
        ends = [first[name] + 1 + self.machine.link_out.latency for name in self.graph.outputs if name in first]
        return max(self._bodies.least(spans), *ends, tail[node.output], 0)

    def _after(self, node: Node, first: dict[str, int]) -> int | None:
        """When a node can begin, at the times at which others have their first element; None where it may before."""
        if isinstance(node, Scatter | Sort):
            return None
        reads = self._sure_reads[node.output]
        if self.is_name(node):
            sure = [first[v] for v, always in reads if always and v in first]
            return min(sure) if reads and len(sure) == len(reads) else None
        return max((first[v] for v, always in reads if always and v in first), default=None)

    def _wholly(self, node: Node) -> list[tuple[str, bool]]:
        """Values that a node reads, and whether it surely reads every element of them."""
        graph = self.graph
        if isinstance(node, Scatter | Sort):
            return [(value, False) for value in reads_of(node)]
        if isinstance(node, (Reshape, Join)):
            return [(value, True) for value in reads_of(node)]
        if isinstance(node, Gather):
            data = [(node.data.value, False)]
            return data + [(o.value, False) for o in node.indices if o is not None]
        loops = node.loops if isinstance(node, Compute) else graph.types[node.output].shape
        found = []
        for o in read_operands(node) if isinstance(node, Compute) else operands_of(node):
            whole = read_box(o, graph, loops, loops) == graph.types[o.value].shape and unmixed(o)
            found.append((o.value, whole and (o.fill is None or _covers(o, graph, loops))))
        return found


def _combine(paths: list[tuple[int, bool]]) -> int:
    """The least that follows the last element: the longest way that takes every element, else the shortest way."""
    whole = [length for length, all_of_it in paths if all_of_it]
    return max(whole) if whole else min((length for length, _ in paths), default=0)


def _covers(operand: Operand, graph: Graph, loops: tuple[int, ...]) -> bool:
    """Whether a guarded access reaches both ends of every dimension (its steps leave no gaps, as ``read_box`` found)."""
    shape = graph.types[operand.value].shape
    ends = [operand.access.range(j, loops) for j in range(len(shape))]
    return all(low <= 0 and high >= n - 1 for (low, high), n in zip(ends, shape, strict=True))
