"""The halo of a window: where rows of pixels begin in their lines, so that a layer need not wait for a whole further block.

With pixels as weights a layer works through its image in blocks as wide as a plane, which end where lines end. A window
looks ahead of its own pixel (its halo), so the blocks of a layer of windows would need the next block of what they read. Its
rows therefore begin some pixels later in their first line, as many as its windows look ahead: its blocks end so much earlier
in the image, and all that they read is there with the same block of the layer before.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from compiler.costs import fits_planes, plane_tile, roles
from compiler.ir import Compute, Graph, Operand
from compiler.isa import Machine
from compiler.tiling.stationary import Dataflow

PARALLEL = 2  # planes that work side by side: a single one has nobody to wait for


def halo(node: Compute, side: Dataflow, graph: Graph, machine: Machine, halos: Mapping[str, int]) -> int | None:
    """Pixels by which the blocks of a contraction end before those of the image that it follows; ``halos``: of the values
    before it. None where pixels are no weights or fit one plane, and 0 where it would take a block more."""
    columns = _pixel_loops(node, side, graph, machine)
    pixels = prod(node.loops[i] for i in columns)
    if not columns or pixels <= (width := plane_tile(node, side.stationary, machine)[1]):
        return None
    needed = max(
        (halos[o.value] + ahead(o, node, columns, graph) for o in node.operands if o.value in halos), default=0
    )
    return needed if needed <= -pixels % width else 0


def _pixel_loops(node: Compute, side: Dataflow, graph: Graph, machine: Machine) -> list[int]:
    """The loops over pixels that are weights of planes side by side, the outermost first; none where pixels are no weights."""
    constant = node.operands[side.stationary].value in graph.constants
    if constant or machine.matrix.instances < PARALLEL or not fits_planes(node, graph, machine):
        return []
    r = roles(node, side.stationary)
    return [] if r.batch else [i for i in side.order if i in r.columns and node.loops[i] > 1]


def along_lines(node: Compute, side: Dataflow) -> bool:
    """Whether a result's columns lie along lines; else its rows do, and blocks of columns end where they like."""
    columns = roles(node, side.stationary).columns
    return set(side.order[-len(columns) :]) == set(columns)


def ahead(operand: Operand, node: Compute, columns: list[int], graph: Graph) -> int:
    """By how many elements the windows of an operand end behind their own pixel, both images being of one width; 0 for what
    is not such an image."""
    shape = graph.types[operand.value].shape
    step = {}
    at = 1
    for i in reversed(columns):
        step[i] = at
        at *= node.loops[i]
    found = 0
    stride = 1
    for j in reversed(range(len(shape))):
        row = operand.access.matrix[j]
        own = [i for i in columns if row[i]]
        if own:
            if len(own) > 1 or row[own[0]] != 1 or step[own[0]] != stride:
                return 0
            reached = sum(c * (node.loops[i] - 1) for i, c in enumerate(row) if c > 0 and i not in columns)
            found += stride * (operand.access.offset[j] + reached)
        stride *= shape[j]
    return max(0, found)
