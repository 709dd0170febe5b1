"""Cycles of an operation on each kind of unit.

Stages of arithmetic (``alu_passes``, ``vector_stages``, ``epilogue_stages``) and rates of links are the exact formulas of the
instruction table (``compiler.isa.timing``). What is called an estimate knows neither tiles nor memory lines, so it may be
above or below what a program takes: a proven bound must not use it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from compiler.costs.contraction import factor_types, fits_planes, plane_tile, product_shape, products_per_pass, roles
from compiler.ir import Compute, Expr, Graph
from compiler.isa import Machine
from compiler.isa.timing import ceil_div, passes


def alu_passes(expr: Expr | None, machine: Machine) -> int:
    """Operations of an arithmetic unit for one element of an expression."""
    return passes(expr.steps if expr else (), machine.passes)


def epilogue_stages(post: Expr | None, machine: Machine) -> int:
    """Cycles for which the arithmetic behind a plane keeps a row that ends its sums; at least 1."""
    return max(1, ceil_div(alu_passes(post, machine), machine.matrix.alus))


def vector_stages(node: Compute, machine: Machine) -> tuple[int, int]:
    """Cycles for which a vector unit's lanes take one element of the body, and one result behind the reduction."""
    alus = max(1, machine.vector.alus)
    body = alu_passes(node.expr, machine) + bool(node.reducer)
    return max(1, ceil_div(body, alus)), ceil_div(alu_passes(node.post, machine), alus)


def vector_cycles(node: Compute, machine: Machine) -> int:
    """Estimate: cycles of one vector unit for a whole operation whose elements fill the lanes."""
    lanes, (body, post) = max(1, machine.vector.lanes), vector_stages(node, machine)
    return ceil_div(node.points * node.reduction * body, lanes) + post * ceil_div(node.points, lanes)


def plane_cycles(node: Compute, stationary: int, machine: Machine, *, shared: bool) -> int:
    """Estimate: cycles of all planes together, where every row passes every weight tile, the last of a sum with the epilogue.

    ``shared``: products of the largest batch loop share passes as blocks on the diagonal.
    """
    tile = depth, width = plane_tile(node, stationary, machine)
    batch, rows, columns, inner = product_shape(node, stationary)
    if shared:
        largest = max((node.loops[i] for i in roles(node, stationary).batch), default=1)
        batch = ceil_div(batch, products_per_pass(largest, inner, columns, tile))
    tiles = ceil_div(inner, depth) - 1 + epilogue_stages(node.post, machine)
    return batch * rows * ceil_div(columns, width) * tiles


def full_plane_cycles(node: Compute, post: Expr | None, machine: Machine) -> int:
    """Estimate: cycles of all planes together with epilogue ``post`` if every pass is full of columns."""
    depth, width = machine.matrix.tiles[max(factor_types(node), key=lambda t: t.size).value]
    tiles = ceil_div(node.reduction, depth) - 1 + epilogue_stages(post, machine)
    return ceil_div(prod(node.loops[: node.parallel]) * tiles, width)


def unit_demand(graph: Graph, machine: Machine, on_planes: Callable[[Compute], int]) -> tuple[int, int]:
    """Estimate: unit-cycles of an inference on all planes together, and on all vector units together.

    ``on_planes``: cycles of a contraction that the planes take; everything else is the vector unit's.
    """
    planes = vector = 0
    for node in graph.nodes:
        if fits_planes(node, graph, machine):
            assert isinstance(node, Compute)
            planes += on_planes(node)
        elif isinstance(node, Compute):
            vector += vector_cycles(node, machine)
    return planes, vector


def link_cycles(graph: Graph, machine: Machine) -> int:
    """Cycles of the links for one inference, of the direction that has more to carry."""
    return max(
        sum(ceil_div(graph.types[name].bytes, link.bytes_per_cycle * link.instances) for name in names)
        for names, link in ((graph.inputs, machine.link_in), (graph.outputs, machine.link_out))
    )


def input_cycles(graph: Graph, machine: Machine) -> int:
    """Cycles for which the inputs come in over the link, rounded down; 0 without a link."""
    rate = machine.link_in.bytes_per_cycle if machine.link_in.instances else 0
    return sum(graph.types[name].bytes for name in graph.inputs) // rate if rate else 0
