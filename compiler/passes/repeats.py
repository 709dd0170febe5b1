"""What an operation would compute again for every step of a loop that none of its operands moves along is computed once.

Masks that are expanded to the shape of what they weigh, then cast, summed or limited, are such operations: their results
are views, which readers take as they are.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Access, Compute, Graph, Node, Operand, TensorType, View, output_dtype, reads_of
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import settled

ROUNDS = 8  # operations behind each other on the way from what repeats to what does not


def repeats(graph: Graph) -> Graph:
    """Every map and reduction without loops that repeat all of it; the same values."""
    return settled(graph, _once, ROUNDS)


def _once(graph: Graph) -> Graph:
    kept, writer = _kept(graph), Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        idle = _idle(node) if node.output not in kept else []
        return _shorter(node, idle, writer) if idle else None

    return writer.each(made, Compute)


def _kept(graph: Graph) -> set[str]:
    """Values that somebody needs in memory as they are: a view of them would have to be stored."""
    kept = set(graph.kept)
    for node in graph.nodes:
        if not isinstance(node, Compute):
            kept.update(reads_of(node))
        elif node.guard is not None:
            kept.add(node.guard.value)
    return kept


def _idle(node: Compute) -> list[int]:
    """Loops of the output along which nothing changes."""
    busy = node.indices.union(*(o.access.moving for o in node.operands))
    return [i for i, n in enumerate(node.shape) if n > 1 and i not in busy]


def _shorter(node: Compute, idle: list[int], writer: Rewriter) -> list[Node]:
    """The node with one step of its ``idle`` loops, and its result as a view."""
    loops = tuple(1 if i in idle else n for i, n in enumerate(node.loops))
    value = writer.value(f"{node.output}~once", TensorType(output_dtype(node), loops[: node.parallel]))
    made = replace(node, name=writer.name(f"{node.name}~once"), output=value, loops=loops)
    whole = Access.of_loops((None if i in idle else i for i in range(node.parallel)), node.parallel)
    return [made, View(node.name, node.output, node.source, Operand(value, whole), guard=node.guard)]
