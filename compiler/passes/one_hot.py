"""Products with one-hot rows become look-ups: a row of ones and zeros that meets constant weights picks one of their rows.

Networks that read bytes or categories compare an input with 0, 1, 2, ... and multiply the truth values by a matrix. All but
one of the products are zero, so the sum is that row of the matrix with its bits; an input outside the range picks a row of
zeros. What follows the sum element by element is computed for the rows of the table, where all it reads is constant.

The class: any comparison of whole numbers with counted places (``OneHot``, or ``Equal`` with 0, 1, 2, ...) before a dense
layer whose columns lie side by side in the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ir import (
    REDUCED,
    Access,
    Compute,
    DType,
    Gather,
    Graph,
    Node,
    Operand,
    TensorType,
    Term,
    arg,
    const,
    expression,
    select,
    term_of,
)
from compiler.ir.builder import FOLD_BYTES
from compiler.ir.interpreter import evaluate_node
from compiler.passes.clean import dead_code
from compiler.passes.rewriter import Rewriter

COMPARED = frozenset({DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.I64})
Array = np.ndarray[Any, Any]


def one_hots(graph: Graph) -> Graph:
    """Every contraction of a one-hot map by finite constant weights as a gather; the same values."""
    writer = Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        for choice, table in ((0, 1), (1, 0)) if node.is_contraction and node.guard is None else ():
            source = writer.makers.get(node.operands[choice].value)
            hot = _one_hot(source, graph) if isinstance(source, Compute) and source.is_map else None
            dim = None if hot is None else _looked_up(node, hot, choice, table, graph)
            if hot is not None and dim is not None:
                return _gathered(node, hot, choice, table, dim, writer)
        return None

    return dead_code(writer.each(made, Compute))


@dataclass(frozen=True)
class _Hot:
    """A map that is 1 where a whole number equals the place along a loop, else 0. ``number``: of one operand, ``read``."""

    source: Compute
    loop: int
    number: Term
    read: Operand


def _one_hot(source: Compute, graph: Graph) -> _Hot | None:
    equal = _condition(term_of(source.expr))
    if equal is None or equal.name != "eq" or source.guard is not None:
        return None
    for number, place in (equal.args, equal.args[::-1]):
        loop, reads = _counted(place, source, graph), expression(number).reads
        read = source.operands[next(iter(reads))] if len(reads) == 1 else None
        if loop is None or read is None or number.dtype not in COMPARED:
            continue
        if read.fill is None and not read.access.uses(loop) and not expression(number).indices:
            return _Hot(source, loop, number, read)
    return None


def _condition(root: Term) -> Term | None:
    """What a float is 1 for where it holds, and else 0."""
    if not root.dtype.is_float or root.name not in ("cast", "select"):
        return None
    sides = [a.imm if a.name == "const" else None for a in root.args[1:]]
    return root.args[0] if root.name == "cast" or sides == [1.0, 0.0] else None


def _counted(place: Term, source: Compute, graph: Graph) -> int | None:
    """The loop whose coordinate a term is: asked for, or read from a constant that counts up from 0."""
    if place.name == "index":
        return int(place.imm or 0)
    operand = source.operands[int(place.imm or 0)] if place.name == "arg" else None
    array = graph.constants.get(operand.value) if operand else None
    if operand is None or array is None or operand.fill is not None or len(operand.access.moving) != 1:
        return None
    (loop,) = operand.access.moving
    extent = source.loops[loop]
    at = tuple(
        o + row[loop] * np.arange(extent) for o, row in zip(operand.access.offset, operand.access.matrix, strict=True)
    )
    return loop if np.array_equal(array[at], np.arange(extent)) else None


def _looked_up(node: Compute, hot: _Hot, choice: int, table: int, graph: Graph) -> int | None:
    """The dimension of constant weights from which a one-hot factor picks; None where the product is no look-up."""
    factor, weights = node.operands[choice], node.operands[table]
    summed = [i for i in node.inner if node.loops[i] > 1]
    if len(summed) != 1 or not _is_table(weights, node, graph) or factor.fill is not None:
        return None
    read = hot.read.through(factor.access, len(node.loops)).access
    wide = [i for i, n in enumerate(node.shape) if n > 1]
    if weights.access.uses(wide) and read.uses(wide[-1]):
        return None  # neighbours of the result lie in different rows: every element would be looked up on its own
    if factor.access.walked(summed[0], node.loops, hot.source.loops) != hot.loop:
        return None
    return weights.access.walked(summed[0], node.loops, graph.types[weights.value].shape)


def _is_table(weights: Operand, node: Compute, graph: Graph) -> bool:
    """Whether rows of constant weights may be picked instead of multiplied: finite ones of the sum's type, not too large."""
    array = graph.constants.get(weights.value)
    if array is None or weights.fill is not None or array.dtype != node.expr.dtype.numpy:
        return False
    return array.nbytes <= FOLD_BYTES and bool(np.isfinite(array).all())


def _gathered(node: Compute, hot: _Hot, choice: int, table: int, dim: int, writer: Rewriter) -> list[Node]:
    """Rows of the table, and what follows the sum: on the table where it can be, else on what was picked."""
    weights = node.operands[table]
    array = writer.constants[weights.value] + 0  # a sum of products is never -0
    rows = np.concatenate([array, np.zeros_like(array.take([0], axis=dim))], axis=dim)
    access = weights.access.keep(range(node.parallel))
    before = _on_table(node, rows, access, dim, writer)
    behind = node.post is not None and before is None
    numbers = _numbers(node, hot, array.shape[dim], writer)
    read = hot.read.through(node.operands[choice].access, len(node.loops)).access.keep(range(node.parallel))
    name = writer.constant(f"{weights.value}~rows", rows if before is None else before)
    indices = tuple(Operand(numbers.output, read) if j == dim else None for j in range(rows.ndim))
    picked = node.output
    if behind:
        picked = writer.value(f"{node.output}~picked", TensorType(writer.types[name].dtype, node.shape))
    gather = Gather(node.name, picked, node.source, node.shape, Operand(name, access), indices)
    if not behind:
        return [numbers, gather]
    return [
        numbers,
        gather,
        _behind(node, Operand.whole(picked, node.parallel), range(node.parallel), node.shape, writer),
    ]


def _numbers(node: Compute, hot: _Hot, extent: int, writer: Rewriter) -> Compute:
    """The numbers with all outside the table as the row of zeros behind it."""
    kind = writer.types[hot.read.value]
    dtype = hot.number.dtype if hot.number.dtype == DType.I64 else DType.I32
    position, own = next(iter(expression(hot.number).reads.items()))
    value = term_of(expression(hot.number), {position: arg(0, own)}).cast(dtype)
    row = select(value.op("lt", 0), const(extent, dtype), value.op("min", extent))
    output, name = writer.value(f"{node.output}~row", TensorType(dtype, kind.shape)), writer.name(f"{node.name}~row")
    whole = (writer.whole(hot.read.value),)
    return Compute(name, output, node.source, kind.shape, len(kind.shape), whole, expression(row))


def _on_table(node: Compute, table: Array, access: Access, dim: int, writer: Rewriter) -> Array | None:
    """The table with the node's ``post`` done; None where that reads other values, moves along other loops or is more
    work."""
    if node.post is None or table.size > node.points or node.post.indices:
        return None
    over = [None if j == dim else access.plain(j) for j in range(table.ndim)]
    reads = [node.operands[i] for i in node.post.reads]
    whole = _walking(over, node.loops, table.shape)
    if not all(o.value in writer.constants and o.fill is None for o in reads):
        return None
    if not frozenset[int]().union(*(o.access.moving for o in reads)) <= whole:
        return None
    made = _behind(node, Operand.whole("", table.ndim), over, table.shape, writer)
    return evaluate_node(made, {**writer.constants, "": table}, table.shape)


def _walking(over: list[int | None], extents: tuple[int, ...], shape: tuple[int, ...]) -> set[int]:
    """Those of the loops, one a dimension, that have its extent."""
    return {loop for loop, n in zip(over, shape, strict=True) if loop is not None and extents[loop] == n}


def _behind(
    node: Compute, rows: Operand, over: Iterable[int | None], loops: tuple[int, ...], writer: Rewriter
) -> Compute:
    """What follows the node's sum, as a map of ``rows`` over other loops (``Access.keep``)."""
    assert node.post is not None
    order, reads = list(over), node.post.reads
    places = {old: arg(1 + new, kind) for new, (old, kind) in enumerate(reads.items())}
    expr = expression(term_of(node.post, {**places, REDUCED: arg(0, node.expr.dtype)}))
    operands = (rows, *(node.operands[i].keep(order) for i in reads))
    name = writer.name(f"{node.name}~post")
    return Compute(name, node.output, node.source, loops, len(loops), operands, expr)
