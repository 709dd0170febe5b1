"""Reductions in parts: what is made first is reduced while the rest is still being made.

A look-up makes row after row, planes make row after row of what moves past the weights. A reduction over such rows would
wait for the last; cut into chunks, only the last chunk and a few parts are left to do then. A chunk of 2**m neighbours is a
subtree of the reduction's tree, so results keep their bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from compiler.ir import Compute, Gather, Graph, Node, Reshape, TensorType
from compiler.numerics.reduce import identity
from compiler.passes.rewriter import Rewriter
from compiler.passes.stages import partial, rest
from compiler.passes.windows import FOLDS

LEAST = 1 << 16  # elements of a reduction that is worth further instructions
PARTS = 8
SHORT = 32  # elements of a chunk, below which the parts themselves would be work


def parts(graph: Graph, least: int = LEAST) -> Graph:
    """Reductions of ``least`` elements or more over rows that are made one after the other, in chunks; the same values."""
    writer = Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        return _chunked(node, writer) if _fits(node, graph, least) and _late(node, writer) else None

    return writer.each(made, Compute)


def _chunk(node: Compute) -> int:
    """Neighbours in one part: the smallest power of two of which there are no more than ``PARTS``."""
    return 1 << (-(-node.loops[-1] // PARTS) - 1).bit_length()


def _fits(node: Compute, graph: Graph, least: int) -> bool:
    """Whether one long loop over whole rows is reduced, results being few."""
    if node.reducer not in FOLDS or node.is_contraction or len(node.inner) != 1 or node.expr.indices:
        return False
    if node.points * node.reduction < least or _chunk(node) < SHORT:
        return False
    return node.reduction % _chunk(node) == 0 or (node.expr.is_identity and walks_whole(node, graph.types))


def walks_whole(node: Compute, types: Mapping[str, TensorType]) -> bool:
    """Whether the last loop walks a dimension of every operand that it moves, so that what is read behind its end can be
    filled in."""
    last = len(node.loops) - 1
    return all(
        o.fill is None and o.access.walked(last, node.loops, types[o.value].shape) is not None
        for o in node.operands
        if o.access.uses(last)
    )


def _late(node: Compute, writer: Rewriter) -> bool:
    """Whether some operand is made row after row along what is reduced."""
    return any(_in_rows(o.value, j, writer) for o in node.operands for j in o.access.dims(node.parallel))


def _in_rows(value: str, dim: int, writer: Rewriter) -> bool:
    """Whether a value is made one index after the other along a dimension."""
    maker, types = writer.makers.get(value), writer.types
    if isinstance(maker, Reshape):
        return _in_rows(maker.input, _outer(types[maker.input].shape, types[value].shape, dim), writer)
    if isinstance(maker, Gather):
        return any(o is not None and o.access.uses(dim) for o in maker.indices)
    if not isinstance(maker, Compute) or not maker.is_contraction:
        return False
    known = [o.value in writer.graph.constants for o in maker.operands[:2]]
    if sum(known) != 1:
        return False
    weights, moving = maker.operands[known.index(True)], maker.operands[known.index(False)]
    return moving.access.uses(dim) and not weights.access.uses(dim)


def _outer(source: tuple[int, ...], shape: tuple[int, ...], dim: int) -> int:
    """The dimension of ``source`` that a step along ``dim`` of the same elements in ``shape`` moves along."""
    step = prod(shape[dim + 1 :])
    return max((j for j in range(len(source)) if prod(source[j + 1 :]) <= step < prod(source[j:])), default=0)


def _chunked(node: Compute, writer: Rewriter) -> list[Node]:
    """The parts, and the reduction of them."""
    assert node.reducer is not None
    last, chunk = node.parallel, _chunk(node)
    count = -(-node.loops[last] // chunk)
    behind = None if node.loops[last] % chunk == 0 else identity(node.reducer, node.expr.dtype.numpy)
    operands = tuple(
        replace(
            o,
            access=o.access.split(last, (count, chunk)),
            fill=behind if behind is not None and o.access.uses(last) else o.fill,
        )
        for o in node.operands
    )
    first = partial(replace(node, loops=(*node.shape, count, chunk), operands=operands), writer, "parts", last + 1)
    return [first, rest(node, first.output, (count,))]
