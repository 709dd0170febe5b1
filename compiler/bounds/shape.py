"""Accesses as the bounds see them: which part meets data, and how many elements a box of points must read."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache, reduce

import numpy as np

from compiler.costs import loops_used
from compiler.ir import Access, Compute, Graph, Operand

Box = tuple[int, ...]
Steps = tuple[tuple[int, int], ...]  # coefficient and count: all sums of some multiple of each
Places = tuple[Steps, ...]  # by dimension, from some first index on


def overlapping(node: Compute) -> bool:
    """Whether a contraction in groups reads overlapping windows: some coordinate is moved along and within them."""
    long = {i for i, n in enumerate(node.loops) if n > 1}
    along, inner = long & {*range(node.parallel)}, long - {*range(node.parallel)}
    one, other = ({i for i in along if loops_used(o, len(node.loops))[i]} for o in node.operands[:2])
    return bool(one & other) and any(
        _moved(o, alone) & _moved(o, inner) for o, alone in zip(node.operands, (one - other, other - one), strict=False)
    )


def _moved(operand: Operand, loops: Iterable[int]) -> set[int]:
    """Coordinates that some of the loops move."""
    return {j for i in loops for j in operand.access.dims(i)}


def inside_share(operand: Operand, graph: Graph, loops: tuple[int, ...]) -> Fraction:
    """At least this part of the points reads data instead of the fill."""
    if operand.fill is None:
        return Fraction(1)
    return _share(operand.access, graph.types[operand.value].shape, loops)


@lru_cache(maxsize=1 << 12)
def _share(a: Access, shape: Box, loops: Box) -> Fraction:
    shares = [_inside(a.offset[j], a.matrix[j], loops, extent) for j, extent in enumerate(shape)]
    guarded = [j for j, s in enumerate(shares) if s < 1]
    seen = [i for j in guarded for i, c in enumerate(a.matrix[j]) if c and loops[i] > 1]
    if len(seen) == len(set(seen)):  # no loop moves two guarded coordinates: they are independent
        return reduce(lambda a, b: a * b, shares, Fraction(1))
    return max(Fraction(0), 1 - sum((1 - s for s in shares), Fraction(0)))


@lru_cache(maxsize=1 << 12)
def _inside(offset: int, row: tuple[int, ...], loops: tuple[int, ...], extent: int) -> Fraction:
    """The part of the loops' points at which one coordinate lies in the tensor."""
    values = np.array([offset], dtype=np.int64)
    counts = np.ones(1, dtype=np.int64)
    for coefficient, n in zip(row, loops, strict=True):
        if coefficient and n > 1:
            spread = (values[:, None] + coefficient * np.arange(n)).ravel()
            low = int(spread.min())
            together = np.zeros(int(spread.max()) - low + 1, dtype=np.int64)
            np.add.at(together, spread - low, np.repeat(counts, n))
            places = np.flatnonzero(together)
            values, counts = places + low, together[places]
    return Fraction(int(counts[(values >= 0) & (values < extent)].sum()), int(counts.sum()))


def always_reads(operand: Operand, graph: Graph, loops: tuple[int, ...], parallel: int) -> bool:
    """Whether every output point reads data at least once (no output is made of padding alone)."""
    if operand.fill is None:
        return True
    access = operand.access
    return all(
        _meets_data(access.offset[j], access.matrix[j], extent, loops, parallel)
        for j, extent in enumerate(graph.types[operand.value].shape)
    )


def _meets_data(offset: int, row: tuple[int, ...], extent: int, loops: tuple[int, ...], parallel: int) -> bool:
    """Whether the window of every point has a tap inside ``extent``, in one dimension."""
    moves = [c * (n - 1) for c, n in zip(row, loops, strict=True)]
    outer, inner = moves[:parallel], moves[parallel:]
    low, high = offset + sum(min(0, c) for c in outer), offset + sum(max(0, c) for c in outer)
    steps = [abs(c) for c, n in zip(row[parallel:], loops[parallel:], strict=True) if c and n > 1]
    gap = max(steps, default=0) > extent  # a window that could step over the whole tensor
    reaches = low + sum(max(0, c) for c in inner) >= 0 and high + sum(min(0, c) for c in inner) < extent
    return reaches and not gap


def read_box(operand: Operand, graph: Graph, loops: tuple[int, ...], box: Box) -> Box:
    """At least this many elements along each dimension that points ``box`` of the loops read together.

    ``box``: points along every loop. Loops with gaps between their steps count as what is surely distinct.
    """
    shape = graph.types[operand.value].shape
    return tuple(min(n, distinct(row, box)) for n, row in zip(shape, operand.access.matrix, strict=True))


def distinct(row: tuple[int, ...], box: Box) -> int:
    """Places that a coordinate surely takes over that many points along each loop, wherever they are."""
    reach = 1
    for coefficient, n in sorted((abs(c), n) for c, n in zip(row, box, strict=True) if c and n > 1):
        if coefficient <= reach:  # steps no longer than what the finer loops cover: no gaps
            reach = coefficient * (n - 1) + reach
        else:
            reach = max(reach, n)
            break
    return reach


def read_operands(node: Compute) -> list[Operand]:
    """The operands that the expressions really use."""
    steps = (*node.expr.steps, *(node.post.steps if node.post else ()))
    used_at = {step.imm for step in steps if step.op == "arg"}
    return [o for i, o in enumerate(node.operands) if i in used_at]


def mixed_loops(operand: Operand, loops: int) -> tuple[bool, ...]:
    """For each of ``loops`` loops whether it moves several coordinates (a diagonal reads less than its box)."""
    return tuple(len(operand.access.dims(i)) > 1 for i in range(loops))


def unmixed(operand: Operand) -> bool:
    """Whether no loop moves two coordinates."""
    matrix = operand.access.matrix
    return not any(mixed_loops(operand, len(matrix[0]) if matrix else 0))
