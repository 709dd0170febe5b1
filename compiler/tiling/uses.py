"""How the values of a graph are read: in whole, once for many elements, or as few rows in several tiles of a sum."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from compiler.costs.contraction import fits_planes, plane_tile, roles
from compiler.ir.graph import Compute, Join, reads_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from compiler.ir.graph import Graph, Operand
    from compiler.isa.machine import Machine
    from compiler.tiling.stationary import Dataflow

FACTORS = 2  # operands of a contraction that are multiplied
FEW_ROWS = 32  # rows of a product that are one piece on the planes
SLOTS = 2  # tiles of a sum below which its order matters little
SPREAD = 16  # lines that a reduction's few results are spread over: who reads the first need not wait for the last


def summed_in_tiles(graph: Graph, machine: Machine, dataflows: Mapping[str, Dataflow]) -> dict[str, tuple[int, int]]:
    """Values that planes take as few rows, in several tiles of the sum one after another: the dimension, how many tiles.

    The first tile of few rows is then wanted before the last of the first row. ``dataflows``: of contractions, by output.
    """
    found: dict[str, tuple[int, int]] = {}
    for node in graph.nodes:
        if not isinstance(node, Compute) or node.output not in dataflows or not fits_planes(node, graph, machine):
            continue
        stationary = dataflows[node.output].stationary
        r, operand = roles(node, stationary), node.operands[1 - stationary]
        if len(r.inner) == 1 and not r.batch and prod(node.loops[i] for i in r.rows) <= FEW_ROWS:
            dim = operand.access.only(r.inner[0])
            tiles = -(-node.reduction // plane_tile(node, stationary, machine)[0])
            if tiles > SLOTS and dim is not None:
                found[operand.value] = dim, tiles
    return found


def needed_whole(graph: Graph) -> dict[str, frozenset[int]]:
    """By value, the dimensions that some contraction or reduction reads whole for each of its results, maps and concats
    between."""
    found: dict[str, set[int]] = {}
    for node in reversed(graph.nodes):
        if isinstance(node, Join):
            for part in node.parts:
                found.setdefault(part, set()).update(found.get(node.output, ()))
        elif isinstance(node, Compute):
            after = found.get(node.output, set()) if node.reducer is None else set()
            for operand in node.operands:
                dims = _walked_by(operand, node, {*after, *range(node.parallel, len(node.loops))})
                found.setdefault(operand.value, set()).update(dims)
    return {value: frozenset(dims) for value, dims in found.items()}


def _walked_by(operand: Operand, node: Compute, whole: set[int]) -> Iterator[int]:
    """Dimensions of an operand that some loops walk over, all of them among ``whole``."""
    for j, row in enumerate(operand.access.matrix):
        loops = {i for i, c in enumerate(row) if c and node.loops[i] > 1}
        if loops and loops <= whole:
            yield j


def scalars(graph: Graph) -> set[str]:
    """Results of reductions that somebody takes once for each of many elements (a row's sum, its largest), and nobody as
    rows or columns of a product."""
    found = {n.output for n in graph.nodes if isinstance(n, Compute) and n.reducer and not n.is_contraction}
    found -= {*graph.outputs, *(s.update for s in graph.states)}
    wide = set()
    for node in graph.nodes:
        if not isinstance(node, Compute):
            found.difference_update(reads_of(node))
            continue
        for i, operand in enumerate(node.operands):
            if node.is_contraction and i < FACTORS:
                found.discard(operand.value)
            elif prod(node.loops) >= SPREAD * graph.types[operand.value].elements:
                wide.add(operand.value)
    return found & wide
