"""Maps over what a gather reads are computed behind it, on the elements that it picks.

A table kept as codes and scales is then read as codes, and only the rows that are looked up become numbers.
"""

from __future__ import annotations

from math import prod

from compiler.ir import Compute, Gather, Graph, Node, Operand, TensorType, sources_of
from compiler.passes.clean import dead_code, uses
from compiler.passes.rewriter import Rewriter


def behind_gathers(graph: Graph) -> Graph:
    """Every map that only a gather of fewer elements reads, as a map of gathers; the same values."""
    counts, writer = uses(graph), Rewriter(graph)

    def made(node: Gather) -> list[Node] | None:
        source = writer.makers.get(node.data.value)
        if not isinstance(source, Compute) or source.reducer is not None or counts[source.output] != 1:
            return None
        if node.guard != source.guard or prod(node.loops) >= source.points:
            return None
        places = _places(node, source, graph)
        return None if places is None else _moved(node, source, places, writer)

    return dead_code(writer.each(made, Gather))


Places = list[
    list[int | None]
]  # by operand of a map, by dimension: the map's dimension that walks it; None where none moves it


def _places(node: Gather, source: Compute, graph: Graph) -> Places | None:
    """How a map reads its operands; None where one is not read place by place, or none meets every index: one outside its
    dimension stays a fault."""
    if node.data.fill is not None or source.expr.indices:
        return None
    if not all(_is_whole(o, source, graph.types[o.value].shape) for o in source.operands):
        return None
    found = [[o.access.plain(j) for j in range(len(o.access.offset))] for o in source.operands]
    dynamic = {j for j, index in enumerate(node.indices) if index is not None}
    return found if any(sum(p in dynamic for p in places) == len(dynamic) for places in found) else None


def _is_whole(operand: Operand, source: Compute, shape: tuple[int, ...]) -> bool:
    """Whether a map reads one place of each dimension, or all of them one after the other."""
    access = operand.access
    loops = [(access.plain(j), n) for j, n in enumerate(shape) if access.loops(j)]
    whole = all(loop is not None and source.loops[loop] == n for loop, n in loops)
    return whole and operand.fill is None and not any(access.offset)


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
