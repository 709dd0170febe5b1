"""Maps of a step or two computed anew by every reader: a value that is read twice need not be written first.

What scales a value before it becomes codes (its largest element, then the codes) reads it twice; the readers' arithmetic
units have room for a product more, and the pass over memory in between goes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from compiler.ir.expr import FREE
from compiler.ir.graph import Compute, Graph, Node, readers_of
from compiler.passes.clean import dead_code
from compiler.passes.fuse import deduplicated, into

CHEAP = 1  # steps of what is computed again
ROOM = 4  # steps that a reader then has before its result: as many as units behind each other
READERS = 2  # more would do more arithmetic than the pass over memory costs


def again(graph: Graph) -> Graph:
    """Maps of at most ``CHEAP`` steps and one whole operand inside all their ``READERS``; the same values."""
    kept = {*graph.outputs, *(s.update for s in graph.states)}
    readers = readers_of(graph)
    done = {n.output: n for n in graph.nodes}
    for node in graph.nodes:
        found = done[node.output]
        if isinstance(found, Compute) and node.output not in kept and _is_cheap(found, graph):
            taken = [_taken(found, done[r.output]) for r in readers.get(node.output, [])]
            if len(taken) <= READERS and all(taken):
                done.update((t.output, t) for t in taken if t is not None)
    return dead_code(graph.with_nodes(tuple(done[n.output] for n in graph.nodes)))


def _is_cheap(node: Compute, graph: Graph) -> bool:
    """A map that reads one value of its own size, others being smaller: readers read no more than before."""
    work = sum(s.op not in FREE for s in node.expr.steps)
    whole = [o for o in node.operands if prod(graph.types[o.value].shape) >= node.points]
    return node.reducer is None and node.post is None and work <= CHEAP and len(whole) <= 1


def _taken(producer: Compute, reader: Node) -> Compute | None:
    """The reader with the map in its expression; None where that is impossible or takes it more passes."""
    if not isinstance(reader, Compute) or reader.is_contraction or producer.guard != reader.guard:
        return None
    if sum(o.value == producer.output for o in reader.operands) != 1:
        return None
    new = into(producer, reader)
    if new is None or sum(s.op not in FREE for s in new.expr.steps) > ROOM:
        return None
    return replace(deduplicated(new, Counter()), source=reader.source)
