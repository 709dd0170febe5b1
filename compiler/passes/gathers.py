"""Maps over what a gather reads are computed behind it, on the elements that it picks.

A table kept as codes and scales is then read as codes, and only the rows that are looked up become numbers.
"""

from __future__ import annotations

from math import prod

from compiler.ir.graph import Compute, Gather, Graph, Node, Operand, sources_of
from compiler.ir.types import TensorType
from compiler.passes.clean import dead_code, uses
from compiler.passes.rewriter import Rewriter


def behind_gathers(graph: Graph) -> Graph:
    """Every map that only a gather of fewer elements reads, as a map of gathers; the same values."""
    counts, writer = uses(graph), Rewriter(graph)

    def made(node: Gather) -> list[Node] | None:
        source = writer.makers.get(node.data.value)
        if not isinstance(source, Compute) or source.reducer is not None or counts[source.output] != 1:
            return None
        places = _places(node, source, graph)
        return None if places is None else _moved(node, source, places, writer)

    return dead_code(writer.each(made, Gather))


Places = list[
    list[int | None]
]  # by operand of a map, by dimension: the map's dimension that walks it; None where none moves it


def _places(node: Gather, source: Compute, graph: Graph) -> Places | None:
    """How a map reads its operands; None where gathers of these would be more work, or an operand is not read place by place,
    or none meets every index: one outside its dimension stays a fault."""
    plain = node.data.fill is None and node.guard == source.guard and not source.expr.indices
    if not plain or prod(node.loops) >= source.points:
        return None
    found: Places = []
    for o in source.operands:
        shape = graph.types[o.value].shape
        places = [o.access.plain(j) for j in range(len(shape))]
        still = [not o.access.loops(j) for j in range(len(shape))]
        whole = all(s or (p is not None and source.loops[p] == n) for s, p, n in zip(still, places, shape, strict=True))
        if not whole or o.fill is not None or any(o.access.offset):
            return None
        found.append(places)
    dynamic = {j for j, index in enumerate(node.indices) if index is not None}
    return found if any(sum(p in dynamic for p in places) == len(dynamic) for places in found) else None


def _moved(node: Gather, source: Compute, places: Places, writer: Rewriter) -> list[Node] | None:
    """The map of gathers; None where it would read nothing that is gathered."""
    made: list[Node] = []
    operands: list[Operand] = []
    for number, (o, dims) in enumerate(zip(source.operands, places, strict=True)):
        read = o.through(node.data.access, len(node.loops))
        indices = tuple(None if d is None else node.indices[d] for d in dims)
        if any(index is not None for index in indices):
            value = writer.value(f"{node.output}~at{number}", TensorType(writer.types[o.value].dtype, node.loops))
            name = writer.name(f"{node.name}~at{number}")
            made.append(Gather(name, value, node.source, node.loops, read, indices, guard=node.guard))
            read = writer.whole(value)
        operands.append(read)
    done = Compute(
        node.name,
        node.output,
        sources_of(node, source),
        node.loops,
        len(node.loops),
        tuple(operands),
        source.expr,
        guard=node.guard,
    )
    return [*made, done] if made else None
