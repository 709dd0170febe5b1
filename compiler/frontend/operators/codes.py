"""Products of codes: whole numbers with a scale and a zero point, multiplied as they are and corrected exactly.

``sum (a - p)(b - q) = sum ab - p sum b - q sum a + n p q``: the first sum is a contraction of the raw codes, which a
matrix unit executes; sums of constants are constants. Where a window leaves its input, it reads the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.frontend.op import Op
from compiler.frontend.operators.contraction import convolve, matmul
from compiler.frontend.operators.spatial import window
from compiler.ir import DType, Term

NARROW = (DType.I8, DType.U8)
DEEPEST = 1 << 16  # products of two codes that 32 bits can add up


@dataclass(frozen=True)
class Codes:
    """A value of whole numbers and its zero point: None, one number, or one per row or column as an operator says."""

    value: str
    zero: str | None


def known_zero(op: Op, zero: str | None) -> int | None:
    """The zero point if it is one number that is known; 0 for none."""
    if zero is None:
        return 0
    known = op.b.known(zero)
    if known is None or known.size == 0 or (known != known.reshape(-1)[0]).any():
        return None
    return int(known.reshape(-1)[0])


def centred(op: Op, codes: Codes, place: int | None) -> Codes:
    """Constant codes less their zero points where 8 bits hold the difference; ``place``: the dimension of several points."""
    if codes.zero is None:
        return codes
    array, zero = op.b.known(codes.value), op.b.known(codes.zero)
    if zero is not None and not zero.any():
        return Codes(codes.value, None)
    if array is None or zero is None:
        return codes
    wide = array.astype(np.int64) - laid(zero.astype(np.int64), array.ndim, place)
    for dtype in (np.int8, np.uint8):
        limits = np.iinfo(dtype)
        if wide.size == 0 or (wide.min() >= limits.min and wide.max() <= limits.max):
            return Codes(op.b.constant(wide.astype(dtype)), None)
    return codes


def laid(zero: np.ndarray, rank: int, place: int | None) -> np.ndarray:
    """Zero points along a dimension of a tensor of that rank."""
    if zero.size == 1 or place is None or zero.ndim > 1:
        return zero.reshape(()) if zero.size == 1 else zero
    return zero.reshape([-1 if j == place % rank else 1 for j in range(rank)])


def subtracted(op: Op, codes: Codes, place: int | None) -> str:
    """The codes less their zero points as 32-bit numbers: what a product falls back to where no correction serves."""
    if codes.zero is None:
        return codes.value
    rank, zero = len(op.b.shape(codes.value)), codes.zero
    if np.prod(op.b.shape(zero)) == 1:
        zero = op.b.reshape(zero, ())
    elif len(op.b.shape(zero)) == 1 and place is not None:
        zero = op.b.reshape(zero, [op.b.shape(zero)[0] if j == place % rank else 1 for j in range(rank)])
    return op.point(lambda x, z: x.cast(DType.I32) - z.cast(DType.I32), codes.value, zero)


def multiply(op: Op, a: Codes, b: Codes) -> str:
    """The matrix product as 32-bit sums; ``a`` may have a zero point per row, ``b`` one per column."""
    a, b = centred(op, a, -2), centred(op, b, -1)
    shapes = op.b.shape(a.value), op.b.shape(b.value)
    depth = shapes[0][-1] if shapes[0] else 0
    plain = min(map(len, shapes)) >= 2 and all(op.b.dtype(c.value) in NARROW for c in (a, b)) and depth <= DEEPEST
    if not plain:
        return matmul(op, subtracted(op, a, -2), subtracted(op, b, -1), dtype=DType.I32)
    total = matmul(op, a.value, b.value, dtype=DType.I32)
    if a.zero is not None:
        sums = op.reduce("sum", b.value, (len(shapes[1]) - 2,), term=_wide)
        if b.zero is not None:
            q = _along(op, b.zero, len(shapes[1]), -1)
            sums = op.point(lambda s, z: s - z.cast(DType.I32) * depth, sums, q)
        p = _along(op, a.zero, len(shapes[0]), -2)
        total = op.point(lambda t, z, s: t - z.cast(DType.I32) * s, total, p, sums)
    if b.zero is not None:
        rows = op.reduce("sum", a.value, (len(shapes[0]) - 1,), term=_wide)
        q = _along(op, b.zero, len(shapes[1]), -1)
        total = op.point(lambda t, z, s: t - z.cast(DType.I32) * s, total, q, rows)
    return total


def _wide(x: Term) -> Term:
    return x.cast(DType.I32)


def _along(op: Op, zero: str, rank: int, place: int) -> str:
    shape = op.b.shape(zero)
    if len(shape) != 1 or shape[0] == 1:
        return op.b.reshape(zero, ()) if np.prod(shape) == 1 else zero
    return op.b.reshape(zero, [shape[0] if j == place % rank else 1 for j in range(rank)])


def slide(op: Op, a: Codes, b: Codes, bias: str | None) -> str:
    """The convolution that the attributes describe, as 32-bit sums; ``b`` may have a zero point per output channel."""
    b = centred(op, b, 0)
    shape = op.b.shape(b.value)
    w, groups = window(op, shape[2:]), op.whole("group", 1)
    zero = known_zero(op, a.zero)
    narrow = all(op.b.dtype(c.value) in NARROW for c in (a, b)) and np.prod(shape[1:]) <= DEEPEST
    if not narrow or zero is None or b.zero is not None:
        return convolve(op, subtracted(op, a, None), subtracted(op, b, 0), bias, w, groups, DType.I32)
    if zero:
        sums = op.reduce("sum", b.value, range(1, len(shape)), keep=False, term=_wide)
        missing = op.point(lambda s: s * -zero, sums)
        bias = missing if bias is None else op.point(lambda x, m: x.cast(DType.I32) + m, bias, missing)
    return convolve(op, a.value, b.value, bias, w, groups, DType.I32, fill=zero)


def rounded(x: Term, zero: Term | None, dtype: DType) -> Term:
    """A float as codes: rounded half to even, the zero point added, saturated."""
    if zero is None:
        return x.nearest(dtype)
    return (x.op("round") + zero.cast(x.dtype)).nearest(dtype)


def requantised(op: Op, total: str, factor: str, zero: str | None, dtype: DType) -> str:
    """32-bit sums times a factor as codes."""
    if zero is None or known_zero(op, zero) == 0:
        return op.point(lambda t, f: t.scaled(f).nearest(dtype), total, factor)
    return op.point(lambda t, f, z: rounded(t.scaled(f), z, dtype), total, factor, zero)
