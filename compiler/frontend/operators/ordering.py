"""Operators that carry something along an axis or put elements in order: cumulative sums, TopK."""

from __future__ import annotations

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir import Access, DType, Operand, Term, arg, index, select

_COUNTED = 1 << 12  # elements of a row that are ordered by comparing each with each
_ORDERED = 1 << 22  # elements that are put in order at once
_PLACE_BITS = 31
_PLACES = (1 << _PLACE_BITS) - 1


def cumulate(op: Op, value: str, axis: int, how: str = "add", *, back: bool = False, skip: bool = False) -> str:
    """Each place along ``axis`` joined by ``how`` (add or mul) with all before it (``back``: behind it; ``skip``: not itself).

    Doubling (Hillis and Steele, 1986): after step k every place holds 2**k elements, so log2(n) steps do.
    """
    shape, dtype = op.b.shape(value), op.b.dtype(value)
    neutral: float = (0 if how == "add" else 1) * (1.0 if dtype.is_float else 1)

    def shifted(source: str, by: int) -> str:
        offset = tuple((by if back else -by) if j == axis else 0 for j in range(len(shape)))
        return op.b.view(source, shape, Access(offset, Access.identity(len(shape)).matrix), neutral)

    result = shifted(value, 1) if skip else value
    step = 1
    while step < shape[axis]:
        result = op.point(lambda a, b: a.op(how, b), result, shifted(result, step))
        step *= 2
    return result


def _cum(op: Op, how: str) -> str:
    axis = op.axis(int(op.known(1, "The axis").reshape(-1)[0]), op.rank())
    return cumulate(op, op.x(), axis, how, back=bool(op.whole("reverse", 0)), skip=bool(op.whole("exclusive", 0)))


def packable(dtype: DType) -> bool:
    """Whether an element and its place fit one word of 64 bits."""
    return dtype not in (DType.F64, DType.I64, DType.U64)


def _key(x: Term) -> Term:
    """A whole number of 32 bits with the order of the element; -0.0 equals 0.0, and NaN is larger than everything."""
    if not x.dtype.is_float:
        return x.cast(DType.I64) - (1 << 31 if x.dtype == DType.U32 else 0)
    bits = Term("bitcast", (x.cast(DType.F32) + 0.0,), DType.I32)
    ordered = select(bits.op("lt", 0), bits.op("bitxor", (1 << 31) - 1), bits)
    return select(x.op("isnan"), (1 << 31) - 1, ordered.cast(DType.I64))


def order(op: Op, value: str, *, descending: bool = False, keep: int | None = None) -> str:
    """Places (int64) of the elements along the last axis in order, equal ones as they stand; the first ``keep`` of them."""
    shape, dtype = op.b.shape(value), op.b.dtype(value)
    n, last = shape[-1], len(shape) - 1
    wanted = n if keep is None else keep
    if not packable(dtype):
        return _counted(op, value, wanted, descending=descending)
    op.need(op.b.types[value].elements <= _ORDERED, f"{list(shape)} elements are too many to put in order.")

    def word(x: Term) -> Term:
        key = _key(x)
        key = -1 - key if descending else key
        return key.op("shl", _PLACE_BITS).op("bitor", index(last))

    words = op.b.sort(op.point(word, value), wanted)
    return op.point(lambda w: w.op("bitand", _PLACES), words)


def _counted(op: Op, value: str, keep: int, *, descending: bool) -> str:
    """By counting, for each element, the elements that come before it: for numbers of 64 bits."""
    shape, dtype = op.b.shape(value), op.b.dtype(value)
    rank, n = len(shape), shape[-1]
    op.need(n <= _COUNTED, f"{n} elements of 64 bits are too many to put in order; {_COUNTED} are offered, or 32 bits.")
    mine = Access.identity(rank, rank + 1)
    other = Access((0,) * rank, (*mine.matrix[:-1], tuple(int(i == rank) for i in range(rank + 1))))
    a, b = arg(0, dtype), arg(1, dtype)
    ahead = b.op("gt" if descending else "lt", a).op(
        "or", b.op("eq", a).op("and", index(rank).op("lt", index(rank - 1)))
    )
    count = select(ahead, index(0) * 0 + 1, 0)
    ranks = op.b.compute(
        (*shape, n), [Operand(value, mine), Operand(value, other)], count, parallel=rank, reducer="sum"
    )
    return op.slice(inverse(op, ranks), rank - 1, 0, keep)


def inverse(op: Op, places: str) -> str:
    """The inverse of a permutation along the last axis."""
    shape = op.b.shape(places)
    rank = len(shape)
    zeros = op.const(np.zeros(shape), DType.I64)
    numbers = op.point(lambda: index(rank - 1), shape=shape)
    identity = Access.identity(rank)
    target = Access(identity.offset, (*identity.matrix[:-1], (0,) * rank))
    indices = [None] * (rank - 1) + [Operand(places, identity)]
    return op.b.scatter(zeros, shape, target, indices, Operand(numbers, identity))


def along_last(op: Op, value: str, places: str) -> str:
    """Elements of the last axis at places that every row has of its own."""
    out = op.b.shape(places)
    rank = len(out)
    identity = Access.identity(rank)
    access = Access(identity.offset, (*identity.matrix[:-1], (0,) * rank))
    return op.b.gather(value, out, access, [None] * (rank - 1) + [Operand(places, identity)])


def _top_k(op: Op) -> tuple[str, str]:
    k = int(op.known(1, "k").reshape(-1)[0]) if op.has(1) else op.whole("k")
    axis = op.axis(op.whole("axis", -1), op.rank())
    n = op.shape()[axis]
    op.need(0 <= k <= n, f"k = {k} of {n} elements.")
    op.need(op.dtype() != DType.BOOL, "orders truth values.")
    moved = [*(j for j in range(op.rank()) if j != axis), axis]
    back = [moved.index(j) for j in range(op.rank())]
    if k == 0:
        shape = [0 if j == axis else s for j, s in enumerate(op.shape())]
        return op.const(np.zeros(shape), op.dtype()), op.const(np.zeros(shape), DType.I64)
    value = op.transpose(op.x(), moved)
    places = order(op, value, descending=bool(op.whole("largest", 1)), keep=k)
    return op.transpose(along_last(op, value, places), back), op.transpose(places, back)


TABLE: dict[str, Rule] = {
    "CumSum": lambda op: _cum(op, "add"),
    "CumProd": lambda op: _cum(op, "mul"),
    "TopK": _top_k,
}
