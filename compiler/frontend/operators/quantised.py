"""Quantised numbers: whole numbers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.contraction import convolve, matmul
from compiler.frontend.operators.spatial import window
from compiler.frontend.tensors import element_type
from compiler.ir.terms import Term
from compiler.ir.types import DType

_BYTES = (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32)


def _per_axis(op: Op, value: str, data: str, axis: int) -> str:
    """A scale or zero point laid along its axis (or its blocks) of the data."""
    shape, mine = op.b.shape(data), op.b.shape(value)
    if len(mine) == 0 or mine == (1,):
        return op.b.reshape(value, ())
    axis = op.axis(axis, len(shape))
    if len(mine) == 1:
        op.need(mine[0] == shape[axis], f"{mine[0]} scales for a dimension of {shape[axis]}.")
        return op.b.reshape(value, _lying(shape, axis))
    block = op.whole("block_size", 0) or -(-shape[axis] // mine[axis])
    return op.take(value, axis, np.arange(shape[axis]) // block)


def _lying(shape: tuple[int, ...], axis: int) -> list[int]:
    return [n if j == axis else 1 for j, n in enumerate(shape)]


def quantise(op: Op, x: str, scale: str, zero: str | None, dtype: DType) -> str:
    """``saturate(round(x / scale) + zero)``; the rounding is to even."""
    limits = np.iinfo(dtype.numpy)

    def make(value: Term, s: Term, *rest: Term) -> Term:
        wide = (value.cast(DType.F32) / s.cast(DType.F32)).op("round")
        wide = wide + rest[0].cast(DType.F32) if rest else wide
        return wide.op("max", float(limits.min)).op("min", float(limits.max)).cast(dtype)

    return op.point(make, x, scale, *([zero] if zero else []))


def dequantise(op: Op, x: str, scale: str, zero: str | None, dtype: DType) -> str:
    """``(x - zero) * scale``."""

    def make(value: Term, s: Term, *rest: Term) -> Term:
        whole = value.cast(DType.I32) - rest[0].cast(DType.I32) if rest else value
        return (whole.cast(DType.F32) * s.cast(DType.F32)).cast(dtype)

    return op.point(make, x, scale, *([zero] if zero else []))


def _quantize_linear(op: Op) -> str:
    axis = op.whole("axis", 1)
    scale = _per_axis(op, op.x(1), op.x(), axis)
    zero = _per_axis(op, op.x(2), op.x(), axis) if op.has(2) else None
    dtype = op.dtype(2) if zero else DType.U8
    if not zero and op.whole("output_dtype", 0):
        dtype = element_type(op.whole("output_dtype"), "The result")
    op.need(dtype in _BYTES, f"quantises to {dtype.value}.")
    return quantise(op, op.x(), scale, zero, dtype)


def _dequantize_linear(op: Op) -> str:
    axis = op.whole("axis", 1)
    scale = _per_axis(op, op.x(1), op.x(), axis)
    zero = _per_axis(op, op.x(2), op.x(), axis) if op.has(2) else None
    dtype = op.dtype(1)
    if op.whole("output_dtype", 0):
        dtype = element_type(op.whole("output_dtype"), "The result")
    return dequantise(op, op.x(), scale, zero, dtype)


def _dynamic(op: Op) -> tuple[str, str, str]:
    axes = list(range(op.rank()))
    low = op.b.reshape(op.reduce("min", op.x(), axes, post=lambda m: m.op("min", 0.0)), ())
    high = op.b.reshape(op.reduce("max", op.x(), axes, post=lambda m: m.op("max", 0.0)), ())
    scale = op.point(lambda a, b: (b - a) / 255.0, low, high)
    zero = op.point(lambda a, s: (0.0 - a / s).op("round").op("max", 0.0).op("min", 255.0).cast(DType.U8), low, scale)
    return quantise(op, op.x(), scale, zero, DType.U8), scale, zero


def _centred(
    op: Op, value: str, zero: str | None, *, rows: bool = False, columns: bool = False, channel: bool = False
) -> str:
    """The value less its zero point; unchanged where that is known to be 0."""
    if zero is None:
        return value
    known = op.b.known(zero)
    if known is not None and not known.any():
        return value
    shape = op.b.shape(zero)
    if len(shape) == 1 and shape[0] > 1:
        rank = len(op.b.shape(value))
        place = rank - 2 if rows else rank - 1 if columns else 0
        op.need(rows or columns or channel, "has more than one zero point where only one is possible.")
        zero = op.b.reshape(zero, [shape[0] if j == place else 1 for j in range(rank)])
    elif len(shape) == 1:
        zero = op.b.reshape(zero, ())
    return op.point(lambda x, z: x.cast(DType.I32) - z.cast(DType.I32), value, zero)


def _matmul_integer(op: Op) -> str:
    left = _centred(op, op.x(0), op.optional(2), rows=True)
    right = _centred(op, op.x(1), op.optional(3), columns=True)
    return matmul(op, left, right, dtype=DType.I32)


def _conv_integer(op: Op) -> str:
    left = _centred(op, op.x(0), op.optional(2))
    right = _centred(op, op.x(1), op.optional(3), channel=True)
    return convolve(op, left, right, None, window(op, op.shape(1)[2:]), op.whole("group", 1), DType.I32)


def _requantised(op: Op, total: str, scales: tuple[str, str, str], zero: str) -> str:
    """The 32-bit sum times both input scales over the output's."""
    dtype = op.b.dtype(zero)
    limits = np.iinfo(dtype.numpy)

    def make(t: Term, f: Term, z: Term) -> Term:
        wide = (t.cast(DType.F32) * f).op("round") + z.cast(DType.F32)
        return wide.op("max", float(limits.min)).op("min", float(limits.max)).cast(dtype)

    a, b, y = scales
    factor = op.point(lambda p, q, r: p.cast(DType.F32) * q.cast(DType.F32) / r.cast(DType.F32), a, b, y)
    return op.point(make, total, factor, zero)


def _flat(op: Op, i: int) -> str:
    """A scale of one element as a number."""
    return op.b.reshape(op.x(i), ()) if op.shape(i) == (1,) else op.x(i)


def _qlinear_matmul(op: Op) -> str:
    left = _centred(op, op.x(0), op.optional(2), rows=True)
    right = _centred(op, op.x(3), op.optional(5), columns=True)
    total = matmul(op, left, right, dtype=DType.I32)
    op.need(op.rank(1) == 0 or op.shape(1) == (1,), "has a scale for every row of its first input.")
    return _requantised(op, total, (_flat(op, 1), _flat(op, 4), _flat(op, 6)), _flat(op, 7))


def _qlinear_conv(op: Op) -> str:
    left = _centred(op, op.x(0), op.optional(2))
    right = _centred(op, op.x(3), op.optional(5), channel=True)
    total = convolve(op, left, right, op.optional(8), window(op, op.shape(3)[2:]), op.whole("group", 1), DType.I32)
    scale: Any = _flat(op, 4)
    if op.b.shape(scale) != ():
        scale = op.b.reshape(scale, (op.b.shape(scale)[0], *[1] * (op.rank() - 2)))
    return _requantised(op, total, (_flat(op, 1), scale, _flat(op, 6)), _flat(op, 7))


TABLE: dict[str, Rule] = {
    "QuantizeLinear": _quantize_linear, "DequantizeLinear": _dequantize_linear, "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _matmul_integer, "ConvInteger": _conv_integer,
    "QLinearMatMul": _qlinear_matmul, "QLinearConv": _qlinear_conv,
}  # fmt: skip
