"""Which operations do the same work: equal but for the names of their values, over values of the same types.

A network repeats its blocks. What is asked of an operation and of what stands around it has the same answer in each of them,
so it is worked out for the first one and kept by the number of its work. No name enters a number.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.builder import rename_node
from compiler.ir.graph import Graph, Node, Part, reads_of


class Works:
    """Numbers of the work of one graph's operations.

    Two have the same number when they are the same primitive with the same loops, accesses, fills and expressions, on values
    of the same types, of which the same ones are one value, and the same ones constants. What constants hold does not count,
    nor which strip or band of an operation a node is.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._numbers: dict[object, int] = {}
        self._known: dict[str, tuple[Node, int]] = {}  # by output

    def of(self, node: Node) -> int:
        """The number of a node's work."""
        known = self._known.get(node.output)
        if known is None or known[0] is not node:
            number = self._numbers.setdefault(self._bare(node), len(self._numbers))
            known = self._known[node.output] = node, number
        return known[1]

    def _bare(self, node: Node) -> object:
        """The node with numbers in the place of names, and what its values are."""
        names = {value: str(n) for n, value in enumerate(dict.fromkeys((*reads_of(node), node.output)))}
        types, constants = self.graph.types, self.graph.constants
        bare = replace(rename_node(node, names), name="", source=(), part=node.part and Part(node.part.kind, 0, ""))
        return bare, tuple((types[value], value in constants) for value in names)
