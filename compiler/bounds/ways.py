"""Who reads what of which value: all that heads and tails need to know of a graph, whatever the processor."""

from __future__ import annotations

from collections import defaultdict

from compiler.bounds.demand import Demands
from compiler.bounds.reads import Reading, covered, readings
from compiler.bounds.shape import Box
from compiler.bounds.work import Work
from compiler.ir.graph import Compute, Gather, Graph, Join, Node, Reshape, Scatter, Sort, View, operands_of, reads_of


class Ways:
    """A graph's accesses. By output of an operation: ``readings``; ``sure`` and ``whole``, the values that it reads, and
    whether each of its elements depends on them, and whether it reads each of theirs. By value: ``readers``, and
    ``whole_readers``, those that read all of it. ``counted``: forms of boxes that have been counted."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.demands = Demands(graph)
        self.makers = {node.output: node for node in graph.nodes}
        self.resident = set(graph.constants) | {s.input for s in graph.states}
        self.order = [node.output for node in graph.nodes]
        self.place = {name: at for at, name in enumerate(self.order)}
        self.readings = {node.output: readings(node, graph) for node in graph.nodes}
        self.sure = {node.output: self._surely(node) for node in graph.nodes}
        self.whole = {node.output: self._wholly(node) for node in graph.nodes}
        self.covered = covered(graph, self.readings)
        self.readers: dict[str, list[str]] = defaultdict(list)
        self.whole_readers: dict[str, list[str]] = defaultdict(list)
        self.counted: dict[tuple[str, Box], list[Work]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(reads_of(node)):
                self.readers[value].append(node.output)
            for value in dict.fromkeys(value for value, whole in self.whole[node.output] if whole):
                self.whole_readers[value].append(node.output)

    def taken(self, reading: Reading, outputs: Box) -> Box:
        """At least so many elements along each dimension go into so many outputs."""
        found = reading.known.get(outputs)
        if found is None:
            found = reading.known[outputs] = reading.box(outputs)
        return found

    def _surely(self, node: Node) -> list[tuple[str, bool]]:
        """Values that a node reads, and whether every output element depends on them."""
        if isinstance(node, Compute | View):
            return [(r.value, r.always) for r in self.readings[node.output]]
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
