"""What look-ups take of the movers: every place that data names is a line of its own to them.

Only a GATHER reads where data says, and its address generator fetches once for each point that data moves: neighbours in
the table may come from anywhere. Elements that no index moves apart (the rest of a row) come with that fetch. Indices that
are names of the same element count once: what one look-up fetched may have many names.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod

from compiler.bounds.shape import Box
from compiler.ir import Compute, Gather, Graph, Join, Merge, Node, Operand, Reshape, View
from compiler.isa import Machine


def mover_cycles(node: Gather, graph: Graph, machine: Machine, box: Box | None) -> Fraction:
    """Cycles of a mover for a look-up, or for the ``box`` of its results."""
    ports, shape = machine.move.ports, box if box is not None else node.loops
    written = Fraction(prod(shape) * graph.types[node.output].dtype.size, machine.line_bytes * ports["out"])
    return max(written, fetches(node, graph, shape) / max(1, ports["a"]))


def fetches(node: Gather, graph: Graph, shape: Box) -> Fraction:
    """At least so many places of the table are named by data for results of this shape: one for each point of the loops
    that move an index, less those whose indices are names of one element."""
    makers = {maker.output: maker for maker in graph.nodes}
    found, moved = Fraction(1), set[int]()
    for index in node.indices:
        if index is None or index.value in graph.constants:
            continue
        loops = {i for row in index.access.matrix for i, stride in enumerate(row) if stride}
        points = prod(node.loops[i] for i in loops)
        found *= min(Fraction(1), Fraction(_apart(index, graph, makers), max(1, points)))
        moved |= loops
    return found * prod(shape[i] for i in moved) if moved else Fraction(0)


def _apart(index: Operand, graph: Graph, makers: Mapping[str, Node]) -> int:
    """How many elements of an index surely have places of their own: one that is read twice counts once."""
    extents = [graph.types[index.value].shape[j] for j, row in enumerate(index.access.matrix) if any(row)]
    return min(prod(extents), _made(index.value, graph, makers))


def _made(value: str, graph: Graph, makers: Mapping[str, Node]) -> int:
    """Elements of a value that are not other names of each other; of what branches left, one is sure."""
    total, seen, waiting = 0, {value}, [value]
    while waiting:
        name = waiting.pop()
        node = makers.get(name)
        below = _named(node, graph)
        if below is None:
            total += 0 if name in graph.constants else 1 if isinstance(node, Merge) else graph.types[name].elements
            continue
        fresh = [part for part in below if part not in seen]
        seen.update(fresh)
        waiting += fresh
    return min(total, graph.types[value].elements)


def _named(node: Node | None, graph: Graph) -> tuple[str, ...] | None:
    """Values of whose elements an operation's results may be other names; None where it makes its own."""
    if isinstance(node, Reshape):
        return (node.input,)
    if isinstance(node, View):
        return (node.operand.value,)
    if isinstance(node, Join):
        return node.parts
    if isinstance(node, Gather) and all(o is None or o.value in graph.constants for o in node.indices):
        return (node.data.value,)
    if isinstance(node, Compute) and node.reducer is None and node.post is None and node.expr.is_identity:
        return (node.operands[0].value,)
    return None
