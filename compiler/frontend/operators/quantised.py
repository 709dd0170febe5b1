"""Quantised numbers of the standard: whole numbers with a scale and a zero point."""

from __future__ import annotations

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.codes import Codes, multiply, requantised, rounded, slide
from compiler.frontend.tensors import element_type
from compiler.ir import DType, Term
from compiler.ir.builder import Dequantised

_WHOLE = (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.I4, DType.U4)


def _per_axis(op: Op, value: str, data: str, axis: int) -> str:
    """A scale or zero point laid along its axis (or its blocks) of the data."""
    shape, mine = op.b.shape(data), op.b.shape(value)
    if len(mine) == 0 or mine == (1,):
        return op.b.reshape(value, ())
    axis = op.axis(axis, len(shape))
    if len(mine) == 1:
        op.need(mine[0] == shape[axis], f"{mine[0]} scales for a dimension of {shape[axis]}.")
        return op.b.reshape(value, [n if j == axis else 1 for j, n in enumerate(shape)])
    block = op.whole("block_size", 0) or -(-shape[axis] // mine[axis])
    return op.take(value, axis, np.arange(shape[axis]) // block)


def quantise(op: Op, x: str, scale: str, zero: str | None, dtype: DType) -> str:
    """``saturate(round(x / scale) + zero)``; the rounding is to even."""

    def make(value: Term, s: Term, *rest: Term) -> Term:
        return rounded(value.cast(DType.F32) / s.cast(DType.F32), rest[0] if rest else None, dtype)

    known = op.b.known(zero) if zero else None
    return op.point(make, x, scale, *([] if zero is None or (known is not None and not known.any()) else [zero]))


def dequantise(op: Op, x: str, scale: str, zero: str | None, dtype: DType) -> str:
    """``(x - zero) * scale``."""

    def make(value: Term, s: Term, *rest: Term) -> Term:
        wide = DType.F32 if value.dtype.is_float else DType.I32
        whole = value.cast(wide) - rest[0].cast(wide) if rest else value
        return (whole.cast(DType.F32) * s.cast(DType.F32)).cast(dtype)

    known = op.b.known(zero) if zero else None
    return op.point(make, x, scale, *([] if zero is None or (known is not None and not known.any()) else [zero]))


def _quantize_linear(op: Op) -> str:
    axis = op.whole("axis", 1)
    scale = _per_axis(op, op.x(1), op.x(), axis)
    zero = _per_axis(op, op.x(2), op.x(), axis) if op.has(2) else None
    dtype = op.dtype(2) if zero else DType.U8
    if not zero and op.whole("output_dtype", 0):
        dtype = element_type(op.whole("output_dtype"), "The result")
    saturate = op.whole("saturate", 1)
    if dtype.size == 1 and dtype.is_float:

        def kept(x: Term, s: Term) -> Term:
            quotient = x.cast(DType.F32) / s.cast(DType.F32)
            return quotient.saturated(dtype) if saturate else quotient.cast(dtype)

        return op.point(kept, op.x(), scale)
    op.need(dtype in _WHOLE, f"quantises to {dtype.value}.")
    return quantise(op, op.x(), scale, zero, dtype)


def _dequantize_linear(op: Op) -> str:
    axis = op.whole("axis", 1)
    scale = _per_axis(op, op.x(1), op.x(), axis)
    zero = _per_axis(op, op.x(2), op.x(), axis) if op.has(2) else None
    dtype = op.dtype(1)
    if op.whole("output_dtype", 0):
        dtype = element_type(op.whole("output_dtype"), "The result")
    done = dequantise(op, op.x(), scale, zero, dtype)
    if dtype == DType.F32 and op.rank(1) <= 1:
        place = None if op.b.shape(scale) == () else op.axis(axis, op.rank())
        op.b.dequantised[done] = Dequantised(op.x(), op.x(1), op.optional(2), place)
    return done


def dynamic(op: Op) -> tuple[str, str, str]:
    """Codes of the first input, their scale and zero point, all from its smallest and largest element."""
    axes = list(range(op.rank()))
    if 0 in op.shape():  # as runtimes answer what has no largest element
        return op.const(np.zeros(op.shape()), DType.U8), op.const(1.0, DType.F32), op.const(0, DType.U8)
    low = op.b.reshape(op.reduce("min", op.x(), axes, post=lambda m: m.op("min", 0.0)), ())
    high = op.b.reshape(op.reduce("max", op.x(), axes, post=lambda m: m.op("max", 0.0)), ())
    scale = op.point(lambda a, b: (b - a) / 255.0, low, high)
    zero = op.point(lambda a, s: (0.0 - a / s).nearest(DType.U8), low, scale)
    return quantise(op, op.x(), scale, zero, DType.U8), scale, zero


def _matmul_integer(op: Op) -> str:
    return multiply(op, Codes(op.x(0), op.optional(2)), Codes(op.x(1), op.optional(3)))


def _conv_integer(op: Op) -> str:
    return slide(op, Codes(op.x(0), op.optional(2)), Codes(op.x(1), op.optional(3)), None)


def flat(op: Op, i: int) -> str:
    """A scale or zero point of one element as a number."""
    return op.b.reshape(op.x(i), ()) if op.shape(i) == (1,) else op.x(i)


def factor(op: Op, a: str, b: str, y: str) -> str:
    """Both input scales over the output's."""
    return op.point(lambda p, q, r: p.cast(DType.F32) * q.cast(DType.F32) / r.cast(DType.F32), a, b, y)


def _qlinear_matmul(op: Op) -> str:
    op.need(op.rank(1) == 0 or op.shape(1) == (1,), "has a scale for every row of its first input.")
    total = multiply(op, Codes(op.x(0), op.optional(2)), Codes(op.x(3), op.optional(5)))
    return requantised(op, total, factor(op, flat(op, 1), flat(op, 4), flat(op, 6)), flat(op, 7), op.dtype(7))


def _qlinear_conv(op: Op) -> str:
    total = slide(op, Codes(op.x(0), op.optional(2)), Codes(op.x(3), op.optional(5)), op.optional(8))
    scale = flat(op, 4)
    if op.b.shape(scale) != ():
        scale = op.b.reshape(scale, (op.b.shape(scale)[0], *[1] * (op.rank() - 2)))
    return requantised(op, total, factor(op, flat(op, 1), scale, flat(op, 6)), flat(op, 7), op.dtype(7))


TABLE: dict[str, Rule] = {
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": dynamic,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
}
