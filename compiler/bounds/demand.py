"""How much of every value is surely needed: behind a slice, only what it lets through."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from compiler.bounds.shape import read_box, read_operands
from compiler.ir.graph import Compute, Gather, Graph, Join, Node, Reshape, View


def demands(graph: Graph) -> dict[str, Fraction]:
    """By value, a lower bound on the share of its elements that some output depends on."""
    share: dict[str, Fraction] = {name: Fraction(0) for name in graph.types}
    for name in (*graph.outputs, *(s.update for s in graph.states)):
        share[name] = Fraction(1)
    for node in reversed(graph.nodes):
        for value, part in _parts(node, graph, share[node.output]):
            share[value] = max(share[value], part)
    return share


def _parts(node: Node, graph: Graph, own: Fraction) -> list[tuple[str, Fraction]]:
    if isinstance(node, Reshape):
        return [(node.input, own)]
    if isinstance(node, Join):
        total = graph.types[node.output].elements
        return [
            (p, max(Fraction(0), 1 - (1 - own) * Fraction(total, max(1, graph.types[p].elements)))) for p in node.parts
        ]
    if isinstance(node, Gather):
        return [
            (o.value, own if not any(_gaps(o.access.matrix)) else Fraction(0)) for o in node.indices if o is not None
        ]
    if not isinstance(node, (Compute, View)):
        return []  # a scatter or a sort may need little of what it reads
    loops = node.loops if isinstance(node, Compute) else graph.types[node.output].shape
    operands = read_operands(node) if isinstance(node, Compute) else [node.operand]
    found = []
    for o in operands:
        shape = graph.types[o.value].shape
        inside = o.fill is None or all(
            o.access.range(j, loops)[0] <= 0 and o.access.range(j, loops)[1] >= n - 1 for j, n in enumerate(shape)
        )
        box = read_box(o, graph, loops, loops)
        reached = (
            Fraction(prod(box), max(1, prod(shape))) if inside and not any(_gaps(o.access.matrix)) else Fraction(0)
        )
        found.append((o.value, own * reached))
    return found


def _gaps(matrix: tuple[tuple[int, ...], ...]) -> list[bool]:
    """Loops that move more than one coordinate."""
    return [sum(1 for c in column if c) > 1 for column in zip(*matrix, strict=True)] if matrix else []
