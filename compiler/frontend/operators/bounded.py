"""Operators whose result is as long as the data decides: computed at the largest size, with the length beside it.

Compaction is a running count of what is kept and a scatter to the places that it names; what is not kept goes to one
place behind the end. What lies behind the length is zero.
"""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.ordering import cumulate, inverse, order, packable
from compiler.ir import Access, DType, Operand, arg, index, select

_PAIRS = 1 << 24  # comparisons of rows with each other


class Kept:
    """Which of n elements are kept (``flags``, truth values), where they go, and how many there are."""

    def __init__(self, op: Op, flags: str) -> None:
        self.op, (self.n,) = op, op.b.shape(flags)
        counts = cumulate(op, op.cast(flags, DType.I64), 0)
        self.numbers = op.point(lambda c: c - 1, counts)  # of a kept element: how many are kept before it
        self.places = op.point(lambda f, c: select(f, c - 1, self.n), flags, counts)
        self.length = op.b.reshape(op.slice(counts, 0, self.n - 1, 1), ())

    def compact(self, value: str, axis: int = 0) -> str:
        """The kept elements of ``value`` along ``axis``, of its first n; the length belongs to the result."""
        op = self.op
        shape = op.b.shape(value)
        loops = tuple(self.n if j == axis else s for j, s in enumerate(shape))
        wide = tuple(self.n + 1 if j == axis else s for j, s in enumerate(shape))
        identity = Access.identity(len(shape))
        rows = tuple((0,) * len(shape) if j == axis else row for j, row in enumerate(identity.matrix))
        indices: list[Operand | None] = [None] * len(shape)
        indices[axis] = Operand(self.places, Access((0,), (identity.matrix[axis],)))
        zeros = op.const(np.zeros(wide), op.b.dtype(value))
        made = op.b.scatter(zeros, loops, Access(identity.offset, rows), indices, Operand(value, identity))
        return self.bounded(op.slice(made, axis, 0, self.n), axis)

    def bounded(self, value: str, axis: int = 0) -> str:
        """``value`` with this length along ``axis`` (not when it is known: then it is cut)."""
        known = self.op.b.known(self.length)
        if known is not None:
            return self.op.slice(value, axis, 0, int(known))
        self.op.b.lengths[value] = (axis, self.length)
        return value


def _non_zero(op: Op) -> str:
    shape = op.shape()
    op.need(len(shape) > 0, "takes a tensor of at least one dimension.")
    if not prod(shape):
        return op.const(np.zeros((len(shape), 0)), DType.I64)
    flags = op.x() if op.dtype() == DType.BOOL else op.point(lambda x: x.op("ne", 0), op.x())
    kept = Kept(op, op.b.reshape(flags, (prod(shape),)))
    places = np.array(np.unravel_index(np.arange(prod(shape)), shape))
    return kept.compact(op.const(places, DType.I64), 1)


def _compress(op: Op) -> str:
    op.need(op.dtype(1) == DType.BOOL and op.rank(1) == 1, "its condition must be a row of truth values.")
    axis, value = 0, op.b.reshape(op.x(), (prod(op.shape()),))
    if "axis" in op.attributes:
        axis, value = op.axis(op.whole("axis"), op.rank()), op.x()
    n = op.shape(1)[0]
    op.need(n <= op.b.shape(value)[axis], "its condition is longer than its data.")
    if not n or not op.b.types[value].elements:
        return op.slice(value, axis, 0, 0)
    return Kept(op, op.x(1)).compact(value, axis)


def _unique(op: Op) -> tuple[str | None, ...]:
    """Equal elements stand side by side once they are in order; each knows the first place at which its like stands."""
    axis = op.axis(op.whole("axis"), op.rank()) if "axis" in op.attributes else None
    value = op.x() if axis is not None else op.b.reshape(op.x(), (prod(op.shape()),))
    moved = [axis, *(j for j in range(op.rank()) if j != axis)] if axis is not None else [0]
    rows = op.transpose(value, moved)
    n = op.b.shape(rows)[0]
    op.need(op.b.types[rows].elements, "takes a tensor with elements.")
    flat = op.b.reshape(rows, (n, prod(op.b.shape(rows)[1:])))
    places = _row_order(op, flat)
    ordered = op.gather(flat, 0, places)
    before = op.b.view(ordered, op.b.shape(ordered), Access((-1, 0), ((1, 0), (0, 1))), _zero(op.b.dtype(flat)))
    differs = op.reduce("any", op.point(lambda a, b: a.op("ne", b), ordered, before), (1,), keep=False)
    heads = op.point(lambda d: d.op("or", index(0).op("eq", 0)), differs)
    groups = op.point(lambda c: c - 1, cumulate(op, op.cast(heads, DType.I64), 0))
    spread = op.gather(groups, 0, inverse(op, places))  # group of every element, groups in ascending order
    if op.whole("sorted", 1):
        kept, source, number = Kept(op, heads), places, spread
    else:
        firsts = op.gather(op.slice(_first_places(op, heads, groups, places), 0, 0, n), 0, spread)
        kept, source = Kept(op, op.point(lambda f: f.op("eq", index(0)), firsts)), ""
        number = op.gather(kept.numbers, 0, firsts)
    numbers = source or op.const(np.arange(n), DType.I64)
    picked = kept.compact(op.gather(flat, 0, numbers))
    result = op.b.reshape(picked, (op.b.shape(picked)[0], *op.b.shape(rows)[1:]))
    back = [moved.index(j) for j in range(len(moved))]
    done = op.transpose(result, back)
    one = Operand(op.const(np.ones(n), DType.I64), Access.identity(1))
    where = [Operand(number, Access.identity(1))]
    counts = op.b.scatter(op.const(np.zeros(n), DType.I64), (n,), Access((0,), ((0,),)), where, one, "sum")
    if picked in op.b.lengths:
        op.b.lengths[done] = (axis or 0, kept.length)
    counts = op.point(lambda c: c, counts)
    return done, kept.compact(numbers), number, kept.bounded(counts)


def _zero(dtype: DType) -> float:
    return 0.0 if dtype.is_float else 0


def _first_places(op: Op, heads: str, groups: str, places: str) -> str:
    """By group the place of its first element (a stable order puts it at the group's head), and one entry for the rest."""
    (n,) = op.b.shape(heads)
    where = op.point(lambda h, g: select(h, g, n), heads, groups)
    zeros = op.const(np.zeros(n + 1), DType.I64)
    reads = [Operand(where, Access.identity(1))]
    return op.b.scatter(zeros, (n,), Access((0,), ((0,),)), reads, Operand(places, Access.identity(1)))


def _row_order(op: Op, flat: str) -> str:
    """Places of the rows [n, m] in lexicographic order."""
    n, m = op.b.shape(flat)
    dtype = op.b.dtype(flat)
    if dtype == DType.BOOL:
        return _row_order(op, op.cast(flat, DType.U8))
    if m == 1 and packable(dtype):
        return order(op, op.b.reshape(flat, (n,)))
    op.need(n * n * m <= _PAIRS, f"{n} rows of {m} elements are too many to compare with each other.")
    mine, other = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 1, 0), (0, 0, 1)))
    a, b = arg(0, dtype), arg(1, dtype)
    column = select(a.op("ne", b), index(2), m)
    first = op.b.compute((n, n, m), [Operand(flat, mine), Operand(flat, other)], column, parallel=2, reducer="min")
    held = op.point(lambda c: c.op("min", m - 1), first)
    reads: list[Operand | None] = [None, Operand(held, Access.identity(2))]
    left = op.b.gather(flat, (n, n), Access((0, 0), ((1, 0), (0, 0))), reads)
    right = op.b.gather(flat, (n, n), Access((0, 0), ((0, 1), (0, 0))), reads)
    same = index(1).op("lt", index(0))  # of equal rows the earlier one comes first
    ahead = op.point(
        lambda c, x, y: select(
            c.op("eq", m), select(same, index(0) * 0 + 1, 0), select(y.op("lt", x), index(0) * 0 + 1, 0)
        ),
        first,
        left,
        right,
    )
    return inverse(op, op.reduce("sum", ahead, (1,), keep=False))


TABLE: dict[str, Rule] = {"NonZero": _non_zero, "Compress": _compress, "Unique": _unique}
