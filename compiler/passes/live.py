"""How many bytes are live while each operation of a graph runs, one after the other in the graph's order."""

from __future__ import annotations

from itertools import accumulate

from compiler.ir import Graph, Join, Reshape, View, reads_of


def live_bytes(graph: Graph) -> list[int]:
    """By operation: the sizes of all values that exist then. What only names other bytes, or is written where a join has
    it, counts once. Constants and states are not counted: they always lie in memory."""
    home = _homes(graph)
    fixed = {*graph.constants, *(s.input for s in graph.states)}
    first: dict[str, int] = dict.fromkeys(graph.inputs, 0)
    last: dict[str, int] = dict.fromkeys(graph.inputs, 0)
    for number, node in enumerate(graph.nodes):
        for value in (node.output, *reads_of(node)):
            first.setdefault(home(value), number)
            last[home(value)] = number
    for value in graph.outputs:
        last[home(value)] = len(graph.nodes) - 1
    change = [0] * (len(graph.nodes) + 1)
    for value, number in first.items():
        if value not in fixed:
            change[number] += graph.types[value].bytes
            change[last[value] + 1] -= graph.types[value].bytes
    return list(accumulate(change))[:-1]


class _homes:  # noqa: N801 (it is called like a function)
    """The value whose bytes a value lies in."""

    def __init__(self, graph: Graph) -> None:
        self.parent: dict[str, str] = {}
        for node in graph.nodes:
            if isinstance(node, Reshape | View):
                self.parent[node.output] = reads_of(node)[0]
            elif isinstance(node, Join):
                for part in node.parts:
                    self.parent.setdefault(part, node.output)

    def __call__(self, value: str) -> str:
        while value in self.parent:
            value = self.parent[value]
        return value
