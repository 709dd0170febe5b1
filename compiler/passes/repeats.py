"""What an operation would compute again for every step of a loop that none of its operands moves along is computed once.

Masks that are expanded to the shape of what they weigh, then cast, summed or limited, are such operations: their results
are views, which readers take as they are.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand, View, reads_of
from compiler.ir.types import TensorType
from compiler.passes.views import settled

ROUNDS = 8  # operations behind each other on the way from what repeats to what does not


def repeats(graph: Graph) -> Graph:
    """Every map and reduction without loops that repeat all of it; the same values."""
    return settled(graph, _once, ROUNDS)


def _once(graph: Graph) -> Graph:
    types = dict(graph.types)
    kept = _kept(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        idle = _idle(node) if isinstance(node, Compute) and node.output not in kept else []
        if isinstance(node, Compute) and idle:
            nodes += _shorter(node, idle, types)
        else:
            nodes.append(node)
    return graph.with_nodes(tuple(nodes), types=types) if len(nodes) > len(graph.nodes) else graph


def _kept(graph: Graph) -> set[str]:
    """Values that somebody needs in memory as they are: a view of them would have to be stored."""
    kept = {*graph.outputs, *(s.update for s in graph.states)}
    for node in graph.nodes:
        if not isinstance(node, Compute):
            kept.update(reads_of(node))
        elif node.guard is not None:
            kept.add(node.guard.value)
    return kept


def _idle(node: Compute) -> list[int]:
    """Loops of the output along which nothing changes."""
    counted = {s.imm for e in (node.expr, node.post) if e for s in e.steps if s.op == "index"}
    moved = {i for o in node.operands for row in o.access.matrix for i, c in enumerate(row) if c}
    return [i for i, n in enumerate(node.loops[: node.parallel]) if n > 1 and i not in moved and i not in counted]


def _shorter(node: Compute, idle: list[int], types: dict[str, TensorType]) -> list[Node]:
    """The node with one step of its ``idle`` loops, and its result as a view."""
    loops = tuple(1 if i in idle else n for i, n in enumerate(node.loops))
    name = f"{node.output}~once"
    types[name] = TensorType(types[node.output].dtype, loops[: node.parallel])
    rank = range(node.parallel)
    whole = Access((0,) * node.parallel, tuple(tuple(int(i == j and j not in idle) for i in rank) for j in rank))
    made = replace(node, name=f"{node.name}~once", output=name, loops=loops)
    return [made, View(node.name, node.output, node.source, Operand(name, whole), guard=node.guard)]
