"""What a report needs and no processor reads: sources, the critical path, buffers, the graph. Travels in the binary as text."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Any

from compiler.codegen.critical import critical_path
from compiler.ir import Compute, Graph, Node, reads_of
from compiler.isa import Op
from compiler.scheduling.build import Plan
from compiler.tiling import external


def notes(plan: Plan, graph: Graph, bounds: dict[str, Any], precision: str) -> dict[str, Any]:
    """Plain data, the same for the same plan; ``graph``: the model after the passes."""
    return {
        "model": graph.name,
        "metadata": dict(sorted(graph.metadata.items())),
        "precision": precision,
        "bounds": bounds,
        "arena_bound": plan.arena_bound,
        "critical": critical_path(plan),
        "rows": [_row(name, node) for name, node in zip(plan.names, plan.nodes, strict=True)],
        "buffers": buffers_of(plan),
        "weights": _weights(plan),
        "external": _outside(plan),
        "edges": _edges(plan),
    }


def _row(name: str, node: Node | None) -> dict[str, Any]:
    if node is None:
        return {"kind": name.split(" ", 1)[0], "source": [name.split(" ", 1)[1]]}
    kind = type(node).__name__.lower()
    if isinstance(node, Compute):
        kind = "contraction" if node.is_contraction else "reduction" if node.reducer else "map"
    return {"kind": kind, "source": list(node.source)}


def buffers_of(plan: Plan) -> list[list[Any]]:
    """[name, kind, address, bytes, first cycle, last cycle] of every buffer, by address."""
    lives = {life.name: (life.start, life.end) for life in plan.live_ranges}
    rows = []
    for b in plan.space.buffers.values():
        if b.size and b.kind != "external" and (b.kind != "arena" or b.name in lives):
            first, last = lives.get(b.name, (0, plan.latency))
            rows.append([b.name, b.kind, plan.address[b.number], b.size, first, last])
    return sorted(rows, key=lambda row: (row[2], row[4], row[0]))


def _weights(plan: Plan) -> list[int]:
    """Bytes of constants by source operation: each constant belongs to the first operation that reads it."""
    share = [0] * len(plan.names)
    seen: set[str] = set()
    for tile in plan.tiles:
        i = tile.instruction
        for reference in _read_references(plan, i.opcode, i):
            name = plan.space.source(reference).buffer
            b = plan.space.buffers[name]
            if b.kind == "constant" and name not in seen:
                seen.add(name)
                share[i.source] += b.size
    return share


def _outside(plan: Plan) -> list[int]:
    """Bytes in external memory by source operation ([] when there are none): a constant there belongs to the first that
    fetches from it."""
    share = [0] * len(plan.names)
    begin = external.offsets(plan.space)
    if not begin:
        return []
    names, places = list(begin), list(begin.values())
    for tile in plan.tiles:
        if tile.instruction.opcode == Op.FETCH:
            name = names[bisect_right(places, tile.instruction.offset) - 1]
            if begin.pop(name, None) is not None:
                share[tile.instruction.source] += plan.space.buffers[name].size
    return share


def _read_references(plan: Plan, opcode: int, i: Any) -> list[int]:
    found = [r for r in (i.a, i.b, i.c, i.d) if r]
    if i.gather:
        found += [axis.index for axis in plan.space.pool.gathers[i.gather - 1].axes]
    return found


def _edges(plan: Plan) -> list[list[int]]:
    """[from row, to row] of the dataflow graph."""
    made: dict[str, int] = {}
    edges: dict[tuple[int, int], None] = defaultdict()
    for row, (name, node) in enumerate(zip(plan.names, plan.nodes, strict=True)):
        kind, _, value = name.partition(" ")
        if node is not None:
            for read in reads_of(node):
                if read in made:
                    edges[made[read], row] = None
            made[node.output] = row
        elif kind == "input":
            made[value] = row
        elif value in made and kind == "output":
            edges[made[value], row] = None
    return [list(edge) for edge in edges]
