"""What a graph asks of each kind of unit, before its operations are tiles: about how many cycles in every inference."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from compiler.ir.graph import Compute
from compiler.tiling.readers import passes
from compiler.tiling.stationary import factor_types, fits_plane, group, roles

if TYPE_CHECKING:
    from compiler.ir.graph import Graph
    from compiler.isa.machine import Machine
    from compiler.tiling.layout import Layout


def spare(graph: Graph, layout: Layout, machine: Machine) -> int:
    """Cycles that a vector unit has left while the planes or the links work: what it does in these costs no interval."""
    planes = vector = 0
    for node in graph.nodes:
        if not isinstance(node, Compute):
            continue
        if node.is_contraction and fits_plane(node, graph, machine):
            planes += _on_planes(node, layout.sides[node.output].stationary, machine)
        else:
            vector += elsewhere(node, machine)
    least = max(links(graph, machine), planes // max(1, machine.matrix.instances))
    return max(0, least - vector // max(1, machine.vector.instances))


def links(graph: Graph, machine: Machine) -> int:
    """Cycles of the links, of the direction that has more to carry."""
    return max(
        sum(-(-graph.types[name].bytes // (link.bytes_per_cycle * link.instances)) for name in names)
        for names, link in ((graph.inputs, machine.link_in), (graph.outputs, machine.link_out))
    )


def _on_planes(node: Compute, stationary: int, machine: Machine) -> int:
    """Cycles of all planes together: a row passes every tile of weights, the last with what follows the sum."""
    r = roles(node, stationary)
    tile = machine.matrix.tiles[factor_types(node)[1 - stationary].value]
    batch, rows, columns, depth = (prod(node.loops[i] for i in g) for g in (r.batch, r.rows, r.columns, r.inner))
    together = group(max((node.loops[i] for i in r.batch), default=1), depth, columns, tile)
    last = max(1, -(-passes(node.post, machine) // machine.matrix.alus))
    return -(-batch // together) * rows * -(-columns // tile[1]) * (-(-depth // tile[0]) - 1 + last)


def elsewhere(node: Compute, machine: Machine) -> int:
    """Cycles of a vector unit."""
    lanes, alus = max(1, machine.vector.lanes), max(1, machine.vector.alus)
    steps = -(-(passes(node.expr, machine) + bool(node.reducer)) // alus)
    behind = -(-passes(node.post, machine) // alus) * -(-node.points // lanes)
    return -(-node.points * node.reduction * max(1, steps) // lanes) + behind
