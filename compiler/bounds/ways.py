"""Who reads what of which value: all that heads and tails need to know of a graph, whatever the processor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from compiler.bounds import names
from compiler.bounds.demand import Demands
from compiler.bounds.pace import Counted
from compiler.bounds.reads import Reading, covered, readings
from compiler.bounds.shape import Box
from compiler.ir import Compute, Gather, Graph, Join, Node, Reshape, Scatter, Sort, View, operands_of, reads_of

NEAR = 64  # boxes that are followed back from an element, in search of what it needs all of
MOST, FEW = 1 << 16, 32  # operations that are looked at in search of bodies: over all values, and for each at least

Trail = tuple[list[tuple[str, int]], list[tuple[str, int]]]
Flow = tuple[str, list[str], bool]


def _readers(nodes: Iterable[Node], values: Callable[[Node], Iterable[str]]) -> dict[str, list[str]]:
    """By value the outputs of the nodes of whose ``values`` it is one."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        for value in dict.fromkeys(values(node)):
            found[value].append(node.output)
    return found


class Ways:
    """A graph's accesses. By output of an operation: ``readings``; ``sure`` and ``whole``, the values that it reads, and
    whether each of its elements depends on them, and whether it reads each of theirs; ``pieces``, those that each of its
    elements depends on although its work may begin before. By value: ``readers``, and
    ``whole_readers``, those that read all of it. ``counted``: what has been counted of operations."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.demands = Demands(graph)
        self.inputs = set(graph.inputs)
        self.makers = {node.output: node for node in graph.nodes}
        self.resident = set(graph.constants) | {s.input for s in graph.states}
        self.order = [node.output for node in graph.nodes]
        self.place = {name: at for at, name in enumerate(self.order)}
        self._reads: dict[tuple[str, Box], list[tuple[str, Box]]] = {}
        self.readings = {node.output: readings(node, graph) for node in graph.nodes}
        self.late = self._late()
        self.sure = {node.output: self._surely(node) for node in graph.nodes}
        self.whole = {node.output: self._wholly(node) for node in graph.nodes}
        self.pieces = {node.output: self._pieces(node) for node in graph.nodes}
        self.covered = covered(graph, self.readings)
        self.readers = _readers(graph.nodes, reads_of)
        self.whole_readers = _readers(graph.nodes, lambda node: [v for v, whole in self.whole[node.output] if whole])
        self.counted = Counted()
        self._trails: dict[str, Trail] = {}
        self._flows: dict[str, list[Flow]] = {}
        self.far = max(FEW, MOST // max(1, len(graph.nodes)))  # operations before or behind that are looked at

    def _late(self) -> set[tuple[str, str]]:
        """Operations with what they read behind their reduction alone: it may be done by another instruction."""
        reducing = [node.output for node in self.graph.nodes if isinstance(node, Compute) and node.reducer]
        return {(name, r.value) for name in reducing for r in self.readings[name] if not r.before}

    def behind(self, names: Iterable[str]) -> set[str]:
        """Values that come from these or from what comes from them."""
        found = set(names)
        for node in self.graph.nodes:
            if node.output in found or any(value in found for value in reads_of(node)):
                found.add(node.output)
        return found

    def before(self, names: Iterable[str]) -> set[str]:
        """Values that go into these or into what goes into them."""
        found = set(names)
        for node in reversed(self.graph.nodes):
            if node.output in found:
                found.update(reads_of(node))
        return found

    def taken(self, reading: Reading, outputs: Box) -> Box:
        """At least so many elements along each dimension go into so many outputs."""
        found = reading.known.get(outputs)
        if found is None:
            found = reading.known[outputs] = reading.box(outputs)
        return found

    def reads(self, node: Node, box: Box) -> list[tuple[str, Box]]:
        """What a box of an operation's output surely takes: values, and at least so many elements along each dimension."""
        key = (node.output, box)
        if key not in self._reads:
            self._reads[key] = self._read(node, box)
        return self._reads[key]

    def _read(self, node: Node, box: Box) -> list[tuple[str, Box]]:
        if isinstance(node, Reshape | Join):
            return names.behind(node, self.graph, box)
        if not isinstance(node, Compute | View):
            return []
        sure = [r for r in self.readings[node.output] if r.always and (node.output, r.value) not in self.late]
        return [(r.value, self.taken(r, box)) for r in sure]

    def _pieces(self, node: Node) -> list[str]:
        """Values of which something is in every element of an operation's output, behind joins, their reshapes and views."""
        found: list[str] = []
        if not isinstance(node, Compute | View):
            return found
        boxes = [*self.reads(node, (1,) * len(self.graph.types[node.output].shape))]
        joined = False
        seen: set[tuple[str, Box]] = set()
        while boxes:
            value, box = boxes.pop()
            if (value, box) in seen or len(seen) == NEAR:
                continue
            seen.add((value, box))
            maker = self.makers.get(value)
            if isinstance(maker, Join | Reshape | View):
                boxes += self.reads(maker, box)
                joined |= isinstance(maker, Join)
            elif value not in self.resident:
                found.append(value)
        return found if joined else []

    def trail(self, name: str) -> Trail:
        """How an element of a value needs all of others: readers, each with the place of the one that it is read by, and
        those values with the place of their reader."""
        if name in self._trails:
            return self._trails[name]
        steps, found = self._trails[name] = [], []
        boxes: list[tuple[Node, Box, int]] = [(self.makers[name], (1,) * len(self.graph.types[name].shape), -1)]
        seen: set[tuple[str, Box]] = set()
        while boxes:
            reader, box, behind = boxes.pop()
            if isinstance(reader, View) and reader.operand.fill is not None:
                continue
            at = len(steps)
            steps.append((reader.output, behind))
            for value, read in self.reads(reader, box):
                if value in self.resident:
                    continue
                if read == self.graph.types[value].shape:
                    found.append((value, at))
                elif value in self.makers and (value, read) not in seen and len(seen) < NEAR:
                    seen.add((value, read))
                    boxes.append((self.makers[value], read, at))
        return steps, found

    def flow(self, value: str) -> list[Flow]:
        """Values of which all is needed for the whole of a value, the last first: with those before that read all of each,
        or with all its readers where they take all of it together."""
        if value in self.inputs:
            return []  # nothing goes into it
        if value not in self._flows:
            inside = {value}
            flow = self._flows[value] = []
            for name in self._before(value):
                whole = [r for r in self.whole_readers[name] if r in inside]
                together = not whole and name in self.covered and all(r in inside for r in self.readers[name])
                if whole or together:
                    inside.add(name)
                    flow.append((name, whole or self.readers[name], together))
        return self._flows[value]

    def _before(self, value: str) -> Iterator[str]:
        """What may go into a value, the last first."""
        at = self.place.get(value, 0)
        yield from reversed(self.order[max(0, at - self.far) : at])
        yield from self.graph.inputs

    def _surely(self, node: Node) -> list[tuple[str, bool]]:
        """Values that a node reads, and whether all work on its output elements waits for them."""
        if isinstance(node, Compute | View):
            name = node.output
            return [(r.value, r.always and (name, r.value) not in self.late) for r in self.readings[name]]
        if isinstance(node, Gather):
            return [(o.value, o.fill is None) for o in operands_of(node)]
        return [(value, True) for value in reads_of(node)]

    def _wholly(self, node: Node) -> list[tuple[str, bool]]:
        """Values that a node reads, and whether it surely reads every element of them."""
        if isinstance(node, Scatter | Sort):
            return [(value, False) for value in reads_of(node)]
        if isinstance(node, (Reshape, Join)):
            return [(value, True) for value in reads_of(node)]
        if isinstance(node, Gather):
            data = [(node.data.value, False)]
            return data + [(o.value, False) for o in node.indices if o is not None]
        return [(r.value, r.whole) for r in self.readings[node.output]]
