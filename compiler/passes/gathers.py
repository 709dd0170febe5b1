"""Maps over what a gather reads are computed behind it, on the elements that it picks.

A table kept as codes and scales is then read as codes, and only the rows that are looked up become numbers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Gather, Graph, Node, Operand
from compiler.ir.types import TensorType
from compiler.passes.clean import dead_code, uses


def behind_gathers(graph: Graph) -> Graph:
    """Every map that only a gather of fewer elements reads, as a map of gathers; the same values."""
    counts = uses(graph)
    maps = {n.output: n for n in graph.nodes if isinstance(n, Compute) and n.reducer is None}
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        source = maps.get(node.data.value) if isinstance(node, Gather) else None
        if isinstance(node, Gather) and source is not None and counts[source.output] == 1:
            nodes += _moved(node, source, types) or [node]
        else:
            nodes.append(node)
    return dead_code(graph.with_nodes(tuple(nodes), types=types))


def _moved(node: Gather, source: Compute, types: dict[str, TensorType]) -> list[Node] | None:
    """The map of gathers; None where it would be more work, or an operand is not read place by place."""
    if node.guard != source.guard or prod(node.loops) >= source.points or node.data.fill is not None:
        return None
    if any(s.op == "index" for s in source.expr.steps):
        return None
    data = node.data.access
    dynamic = {j for j, index in enumerate(node.indices) if index is not None}
    made: list[Gather] = []
    operands: list[Operand] = []
    for number, o in enumerate(source.operands):
        places = _places(o, source, types[o.value].shape)
        if places is None:
            return None
        access = o.access.compose(data, len(node.loops))
        if dynamic.isdisjoint(p for p in places if p is not None):
            operands.append(replace(o, access=access))
            continue
        name = f"{node.output}~at{number}"
        while name in types:
            name += "'"
        indices = tuple(node.indices[p] if p is not None else None for p in places)
        part = Gather(
            f"{node.name}~at{number}",
            name,
            node.source,
            node.loops,
            replace(o, access=access),
            indices,
            guard=node.guard,
        )
        types[name] = TensorType(types[o.value].dtype, node.loops)
        made.append(part)
        operands.append(Operand(name, Access.identity(len(node.loops))))
    if not made or not any(_checks(part, dynamic) for part in made):
        return None
    rank = len(node.loops)
    done = Compute(
        node.name,
        node.output,
        tuple(dict.fromkeys((*node.source, *source.source))),
        node.loops,
        rank,
        tuple(operands),
        source.expr,
        guard=node.guard,
    )
    return [*made, done]


def _places(o: Operand, source: Compute, shape: tuple[int, ...]) -> list[int | None] | None:
    """For each of the operand's dimensions the map's dimension that walks it whole; None for one that stands still."""
    if o.fill is not None or any(o.access.offset):
        return None
    found: list[int | None] = []
    for n, row in zip(shape, o.access.matrix, strict=True):
        moved = [i for i, c in enumerate(row) if c]
        if not moved:
            found.append(None)
        elif len(moved) == 1 and row[moved[0]] == 1 and n == source.loops[moved[0]]:
            found.append(moved[0])
        else:
            return None
    return found


def _checks(part: Gather, dynamic: set[int]) -> bool:
    """Whether the gather meets every index, so that one outside its dimension stays a fault."""
    return sum(index is not None for index in part.indices) == len(dynamic)
