"""Tables of floats from which rows are gathered: stored as codes with a scale for each row.

The codes are those that a product with the table's rows reads (``compiler.precision.contraction.CodedWeights``), so a table
that is gathered and multiplied is stored once.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.ir import Access, Compute, DType, Gather, Graph, Node, Operand, TensorType, Term, arg, expression
from compiler.numerics.scalar import nearest

if TYPE_CHECKING:
    from compiler.precision.rewrite import Conversion

Array = np.ndarray[Any, Any]
LEAST = 1 << 14  # elements of a table for which a second gather and a product are worth it
SHARE = (
    4  # times as many elements as a run reads of it: where most rows are read, the product costs more than bytes save
)
WIDE = 32  # elements of a row


def row_codes(table: Array) -> tuple[Array, Array]:
    """Codes of the table and the scale of each row: its largest element becomes 127."""
    others = tuple(range(1, table.ndim))
    largest = np.abs(table).max(axis=others, keepdims=True, initial=0.0).astype(np.float32)
    scales = np.maximum(largest / np.float32(127.0), np.float32(2.0**-120))
    return nearest(table / scales, np.dtype(np.int8)), scales.reshape(-1)


def is_table(node: Gather, graph: Graph) -> bool:
    """Whether whole rows of a large constant are gathered by one index, which the rows' elements do not decide."""
    table = graph.constants.get(node.data.value)
    if table is None or table.dtype != np.float32 or table[0].size < WIDE:
        return False
    if table.size < max(LEAST, SHARE * prod(node.loops)):
        return False
    lead, rank = len(node.loops) - table.ndim + 1, table.ndim
    index, others = node.indices[0], node.indices[1:]
    rows = Access((0,) * rank, ((0,) * len(node.loops), *_trailing(lead, rank - 1)))
    if index is None or any(others) or node.data.access != rows or node.loops[lead:] != table.shape[1:]:
        return False
    return not any(any(row[lead:]) for row in index.access.matrix)


def _trailing(lead: int, count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(i == lead + j) for i in range(lead + count)) for j in range(count))


def gathered(node: Gather, work: Conversion) -> Node:
    """Rows of codes and their scales, gathered apart; the node that multiplies them is the answer."""
    name, source = node.data.value, node.source
    made, scales = row_codes(work.graph.constants[name])
    lead = len(node.loops) - made.ndim + 1
    index = node.indices[0]
    assert index is not None
    rows = work.value(f"{node.output}~i8", TensorType(DType.I8, node.loops))
    data = replace(node.data, value=work.constant(f"{name}~i8", made))
    work.emit(replace(node, name=f"{source[0]}~{rows}", output=rows, data=data))
    outer = node.loops[:lead]
    each = work.value(f"{node.output}~scale", TensorType(DType.F32, outer))
    places = replace(index, access=Access(index.access.offset, tuple(row[:lead] for row in index.access.matrix)))
    column = Operand(work.constant(f"{name}~scale", scales), Access((0,), ((0,) * lead,)))
    work.emit(Gather(f"{source[0]}~{each}", each, source, outer, column, (places,)))
    own = tuple(tuple(int(i == j) for i in range(len(node.loops))) for j in range(lead))
    operands = (Operand(rows, Access.identity(len(node.loops))), Operand(each, Access((0,) * lead, own)))
    product = Term("mul", (arg(0, DType.I8), arg(1, DType.F32)), DType.F32)
    return Compute(node.name, node.output, source, node.loops, len(node.loops), operands, expression(product))
