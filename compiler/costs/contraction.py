"""A contraction as a batch of matrix products: what each loop does, the sizes M, N and K, and whether the planes take it.

One factor is *stationary*: a tile of it stays in a plane while rows of the other one move past (a weight-stationary dataflow:
Kung and Leiserson, "Systolic arrays (for VLSI)", 1979). Either factor can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from compiler.ir import Compute, DType, Graph, Node, Operand
from compiler.isa import Machine
from compiler.isa.meaning import accumulator

BLOCKS = 255  # diagonal blocks of weights: the most that an instruction names


@dataclass
class Roles:
    """The loops of a contraction, by what they index: both factors (``batch``), the moving factor or none (``rows``, M), the
    stationary factor (``columns``, N), and the sum (``inner``, K)."""

    stationary: int
    batch: list[int]
    rows: list[int]
    columns: list[int]
    inner: list[int]


class ProductShape(NamedTuple):
    """``batch`` matrix products: ``rows`` (M) by ``columns`` (N) sums of ``depth`` (K) products each."""

    batch: int
    rows: int
    columns: int
    depth: int


def roles(node: Compute, stationary: int) -> Roles:
    """What every loop does when factor ``stationary`` (0 or 1) stays in the planes."""
    fixed, moving = (loops_used(node.operands[n], len(node.loops)) for n in (stationary, 1 - stationary))
    found = Roles(stationary, [], [], [], list(range(node.parallel, len(node.loops))))
    for i in range(node.parallel):
        role = (found.batch if moving[i] else found.columns) if fixed[i] else found.rows
        role.append(i)
    return found


def product_shape(node: Compute, stationary: int, lengths: Sequence[int] | None = None) -> ProductShape:
    """Sizes of the products; ``lengths``: points along each parallel loop, all of them when None."""
    r, extents = roles(node, stationary), node.loops if lengths is None else lengths
    batch, rows, columns = (prod(extents[i] for i in loops) for loops in (r.batch, r.rows, r.columns))
    return ProductShape(batch, rows, columns, node.reduction)


def loops_used(operand: Operand, loops: int) -> tuple[bool, ...]:
    """For each of ``loops`` loops, whether the operand's address depends on it."""
    return _loops_used(operand.access.matrix, loops)


@lru_cache(maxsize=1 << 12)
def _loops_used(matrix: tuple[tuple[int, ...], ...], loops: int) -> tuple[bool, ...]:
    return tuple(any(row[i] for row in matrix) for i in range(loops))


def factor_types(node: Compute) -> tuple[DType, DType]:
    """Element types of a contraction's two factors."""
    first, second, _ = node.expr.steps
    return (first.dtype, second.dtype) if first.imm == 0 else (second.dtype, first.dtype)


def plane_tile(node: Compute, stationary: int, machine: Machine) -> tuple[int, int]:
    """Rows (K) and columns (N) of a plane's array for the element type of the moving factor."""
    return machine.matrix.tiles[factor_types(node)[1 - stationary].value]


def has_plane_types(node: Node, graph: Graph, machine: Machine) -> bool:
    """Whether the node is a contraction and a plane's array exists for both factors' types."""
    if not isinstance(node, Compute) or not node.is_contraction:
        return False
    return all(graph.types[o.value].dtype.value in machine.matrix.tiles for o in node.operands[:2])


def fits_planes(node: Node, graph: Graph, machine: Machine) -> bool:
    """Whether the node is a contraction whose factors the planes multiply and sum in the type that is asked for.

    Bytes with and without sign may meet: the array's cells multiply nine-bit signed values.
    """
    if not machine.matrix.instances or not has_plane_types(node, graph, machine):
        return False
    assert isinstance(node, Compute)
    factors = {graph.types[o.value].dtype.value for o in node.operands[:2]}
    same = len(factors) == 1 or factors <= {"i8", "u8"}
    return same and {accumulator(dtype) for dtype in factors} == {node.expr.dtype.value}


def products_per_pass(products: int, depth: int, columns: int, tile: tuple[int, int]) -> int:
    """How many products of ``depth`` by ``columns`` one pass takes as blocks on the diagonal of a ``tile``, evenly over as few
    passes as possible; 1 where no two fit."""
    most = min(blocks_that_fit(depth, columns, tile), products)
    return -(-products // -(-products // most)) if most > 1 else 1


def blocks_that_fit(depth: int, columns: int, tile: tuple[int, int]) -> int:
    """Blocks of ``depth`` by ``columns`` that fit on the diagonal of a ``tile``; 0 where a single one does not."""
    return min(tile[0] // max(1, depth), tile[1] // max(1, columns), BLOCKS)
