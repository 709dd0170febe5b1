"""What follows sums, shared out between the planes and the vector unit where the interval is all that counts.

An epilogue of more steps than stand behind a plane makes every row that ends a sum take that many passes. The vector unit
could do what is more than one: results come later by an instruction, but where planes are what the interval waits for and the
vector unit has cycles left, both are done sooner.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from compiler.ir.graph import Compute
from compiler.tiling.legalise import kept_behind, split_post
from compiler.tiling.readers import passes
from compiler.tiling.stationary import factor_types, fits_plane, roles
from compiler.tiling.utilisation import elsewhere, links

if TYPE_CHECKING:
    from compiler.ir.expr import Expr
    from compiler.ir.graph import Graph
    from compiler.isa.machine import Machine

FULL = (3, 4)  # as full as passes are, about: planes have more to do than passes that are all full


def shared(graph: Graph, machine: Machine) -> Graph:
    """The graph with epilogues split, those first that free most cycles of planes for one of a vector unit, as long as planes
    have more to do, and more than the links."""
    planes, vector = 0, 0
    found: list[tuple[float, int, int, int]] = []
    for at, node in enumerate(graph.nodes):
        if not isinstance(node, Compute):
            continue
        if not (node.is_contraction and fits_plane(node, graph, machine)):
            vector += elsewhere(node, machine)
            continue
        planes += _planes(node, node.post, machine)
        post = kept_behind(node.post, machine) if node.post else None
        if post is None or roles(node, 0).batch:
            continue  # products of groups may wait for lines, whatever follows them
        gain = _planes(node, node.post, machine) - _planes(node, post, machine)
        cost = _mapped(node, passes(node.post, machine) - passes(post, machine), machine)
        if gain > 0 and cost > 0:
            found.append((-gain / cost, at, gain, cost))
    chosen, least = set(), links(graph, machine) * machine.matrix.instances * FULL[0] // FULL[1]
    for _, at, gain, cost in sorted(found):
        if planes > least and (vector + cost) * machine.matrix.instances <= (planes - gain) * machine.vector.instances:
            planes, vector = planes - gain, vector + cost
            chosen.add(at)
    return split_post(graph, machine, chosen) if chosen else graph


def pressed(graph: Graph, machine: Machine) -> bool:
    """Whether planes have about as much to do as any other kind of unit, or more."""
    planes, vector = 0, 0
    for node in graph.nodes:
        if isinstance(node, Compute):
            if node.is_contraction and fits_plane(node, graph, machine):
                planes += _planes(node, node.post, machine)
            else:
                vector += elsewhere(node, machine)
    others = max(links(graph, machine), vector // max(1, machine.vector.instances))
    return planes > others * machine.matrix.instances * FULL[0] // FULL[1]


def _planes(node: Compute, post: Expr | None, machine: Machine) -> int:
    """Cycles of all planes together, with every pass full."""
    depth, width = machine.matrix.tiles[max(factor_types(node), key=lambda t: t.size).value]
    last = max(1, -(-passes(post, machine) // machine.matrix.alus))
    return -(-prod(node.loops[: node.parallel]) * (-(-node.reduction // depth) - 1 + last) // width)


def _mapped(node: Compute, steps: int, machine: Machine) -> int:
    """Cycles of a vector unit for so many steps of every result."""
    unit = machine.vector
    lanes, alus = max(1, unit.lanes), max(1, unit.alus)
    lines = -(-lanes * node.expr.dtype.size // machine.line_bytes)
    cycles = max(-(-steps // alus), -(-lines // max(1, unit.ports["a"])))
    return -(-prod(node.loops[: node.parallel]) * cycles // lanes)
