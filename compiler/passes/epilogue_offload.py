"""What follows sums, shared out between the planes and the vector unit where the interval is all that counts.

An epilogue of more steps than stand behind a plane makes every row that ends a sum take that many passes. The vector unit
could do what is more than one: results come later by an instruction, but where planes are what the interval waits for and the
vector unit has cycles left, both are done sooner.
"""

from __future__ import annotations

from math import prod

from compiler.costs import alu_passes, fits_planes, full_plane_cycles, link_cycles, roles, unit_demand
from compiler.ir import Compute, Graph, Node
from compiler.isa import Machine
from compiler.passes.legalise import kept_behind, split_post

FULL = (3, 4)  # as full as passes are, about: planes have more to do than passes that are all full


def offload_epilogues(graph: Graph, machine: Machine) -> Graph:
    """The graph with epilogues split, those first that free most cycles of planes for one of a vector unit, as long as planes
    have more to do, and more than the links."""
    planes, vector = _demand(graph, machine)
    found: list[tuple[float, int, int, int]] = []
    for at, node in enumerate(graph.nodes):
        gain, cost = _moved(node, graph, machine)
        if gain > 0 and cost > 0:
            found.append((-gain / cost, at, gain, cost))
    chosen, least = set[str](), link_cycles(graph, machine) * machine.matrix.instances * FULL[0] // FULL[1]
    for _, at, gain, cost in sorted(found):
        if planes > least and (vector + cost) * machine.matrix.instances <= (planes - gain) * machine.vector.instances:
            planes, vector = planes - gain, vector + cost
            chosen.add(graph.nodes[at].output)
    return split_post(graph, machine, chosen) if chosen else graph


def planes_are_busiest(graph: Graph, machine: Machine) -> bool:
    """Whether planes have about as much to do as any other kind of unit, or more."""
    planes, vector = _demand(graph, machine)
    others = max(link_cycles(graph, machine), vector // max(1, machine.vector.instances))
    return planes > others * machine.matrix.instances * FULL[0] // FULL[1]


def _demand(graph: Graph, machine: Machine) -> tuple[int, int]:
    """Unit-cycles of the planes if every pass is full, and of the vector units."""
    return unit_demand(graph, machine, lambda node: full_plane_cycles(node, node.post, machine))


def _moved(node: Node, graph: Graph, machine: Machine) -> tuple[int, int]:
    """Cycles that the planes save, and a vector unit takes, where it does what is more than one pass of an epilogue."""
    if not fits_planes(node, graph, machine):
        return 0, 0
    assert isinstance(node, Compute)
    post = kept_behind(node.post, machine) if node.post else None
    if post is None or roles(node, 0).batch:
        return 0, 0  # products of groups may wait for lines, whatever follows them
    saved = full_plane_cycles(node, node.post, machine) - full_plane_cycles(node, post, machine)
    return saved, _mapped(node, alu_passes(node.post, machine) - alu_passes(post, machine), machine)


def _mapped(node: Compute, steps: int, machine: Machine) -> int:
    """Cycles of a vector unit for so many steps of every result."""
    unit = machine.vector
    lanes, alus = max(1, unit.lanes), max(1, unit.alus)
    lines = -(-lanes * node.expr.dtype.size // machine.line_bytes)
    cycles = max(-(-steps // alus), -(-lines // max(1, unit.ports["a"])))
    return -(-prod(node.loops[: node.parallel]) * cycles // lanes)
