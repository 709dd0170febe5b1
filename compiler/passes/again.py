"""Maps of a step or two computed anew by every reader: a value that is read twice need not be written first.

What scales a value before it becomes codes (its largest element, then the codes) reads it twice; the readers' arithmetic
units have room for a product more, and the pass over memory in between goes.
"""

from __future__ import annotations

from compiler.ir import FREE, Compute, Expr, Graph, Node
from compiler.passes.clean import dead_code
from compiler.passes.fuse import recomputed
from compiler.passes.rewriter import Rewriter

CHEAP = 1  # steps of what is computed again
ROOM = 4  # steps that a reader then has before its result: as many as units behind each other
READERS = 2  # more would do more arithmetic than the pass over memory costs


def again(graph: Graph) -> Graph:
    """Maps of at most ``CHEAP`` steps and one whole operand inside all their ``READERS``; the same values."""
    writer = Rewriter(graph)
    done = dict(writer.makers)
    for node in graph.nodes:
        found = done[node.output]
        if isinstance(found, Compute) and node.output not in graph.kept and _is_cheap(found, graph):
            able = [_with(found, done[r.output]) for r in writer.readers.get(node.output, [])]
            taken = [reader for reader in able if reader is not None]
            if len(taken) == len(able) <= READERS:
                done.update((reader.output, reader) for reader in taken)
    return dead_code(writer.done(done[n.output] for n in graph.nodes))


def _is_cheap(node: Compute, graph: Graph) -> bool:
    """A map that reads one value of its own size, others being smaller: readers read no more than before."""
    whole = [o for o in node.operands if graph.types[o.value].elements >= node.points]
    return node.is_map and _work(node.expr) <= CHEAP and len(whole) <= 1


def _work(expr: Expr) -> int:
    return sum(op not in FREE for op in expr.ops)


def _with(producer: Compute, reader: Node) -> Compute | None:
    """The reader with the map in its expression; None where that is impossible or takes it more passes."""
    new = recomputed(producer, reader)
    return new if new is not None and _work(new.expr) <= ROOM else None
