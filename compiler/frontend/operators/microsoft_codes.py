"""Operators of ``com.microsoft`` on codes: those that quantised models carry.

Their meaning is that of ONNX Runtime's contrib operators (its document ContribOperators).
"""

from __future__ import annotations

import copy

import numpy as np

from compiler.frontend.op import Op, Rule, tupled
from compiler.frontend.operators.codes import Codes, multiply, requantised
from compiler.frontend.operators.derived import derived, last_to_first, other_inputs, plain, single
from compiler.frontend.operators.microsoft import TABLE as MICROSOFT_FLOATS
from compiler.frontend.operators.microsoft_attention import attention_of
from compiler.frontend.operators.quantised import TABLE as STANDARD
from compiler.frontend.operators.quantised import dequantise, dynamic, factor, flat, quantise
from compiler.frontend.operators.recurrent import Cell, lstm
from compiler.ir import DType


def _floats(op: Op, i: int) -> str:
    """Codes, scale and zero point from input i on, as floats."""
    zero = flat(op, i + 2) if op.has(i + 2) else None
    return dequantise(op, op.x(i), flat(op, i + 1), zero, DType.F32)


def _codes(op: Op, value: str, i: int, dtype: DType) -> str:
    """A float value as codes with the scale and zero point from input i on."""
    return quantise(op, value, flat(op, i), flat(op, i + 1) if op.has(i + 1) else None, dtype)


def _binary(name: str) -> Rule:
    def rule(op: Op) -> str:
        done = op.point(lambda a, b: a.op(name, b), _floats(op, 0), _floats(op, 3))
        return _codes(op, done, 6, op.dtype(0))

    return rule


def _unary(kind: str) -> Rule:
    """A standard operator between codes: input, its scale and zero point, the output's scale and zero point."""

    def rule(op: Op) -> str:
        return _codes(op, single(derived(op, kind, _floats(op, 0))), 3, op.dtype(0))

    return rule


def _pool(kind: str) -> Rule:
    def rule(op: Op) -> str:
        value = _floats(op, 0)
        if not op.whole("channels_last", 0):
            return _codes(op, single(derived(op, kind, value)), 3, op.dtype(0))
        return _codes(op, last_to_first(op, lambda x: single(derived(op, kind, x)), value), 3, op.dtype(0))

    return rule


def _concat(op: Op) -> str:
    """Parts brought to the output's scale; those that have it already stay as they are."""
    parts = []
    dtype = op.dtype(2)
    for i in range(2, len(op.inputs), 3):
        known = [op.b.known(op.x(j)) for j in (i + 1, i + 2, 0, 1)]
        same = all(a is not None for a in known) and all(
            np.array_equal(np.reshape(a, -1), np.reshape(b, -1))
            for a, b in zip(known[:2], known[2:], strict=True)
            if a is not None and b is not None
        )
        parts.append(op.x(i) if same else _codes(op, _floats(op, i), 0, dtype))
    axis = op.axis(op.whole("axis"), op.rank(2))
    return op.b.join(parts, axis)


def _where(op: Op) -> str:
    done = single(derived(op, "Where", op.x(0), _floats(op, 1), _floats(op, 4)))
    return _codes(op, done, 7, op.dtype(1))


def _softmax(op: Op) -> str:
    opset = op.whole("opset", 13)
    axis = op.axis(op.whole("axis", -1 if opset >= 13 else 1), op.rank())
    op.need(
        opset >= 13 or axis == op.rank() - 1, "works on a flattened matrix. Export it with operator set 13 or later."
    )
    done = single(derived(op, "Softmax", _floats(op, 0), axis=axis))
    return _codes(op, done, 3, op.dtype(0))


def _leaky(op: Op) -> str:
    alpha = op.real("alpha", 0.01)
    done = op.point(lambda x: x.op("max", 0.0) + x.op("min", 0.0) * alpha, _floats(op, 0))
    return _codes(op, done, 3, op.dtype(0))


def _dynamic_matmul(op: Op) -> str:
    codes, scale, zero = dynamic(op)
    return _as_floats(op, Codes(codes, zero), scale, Codes(op.x(1), op.optional(3)), op.x(2), op.optional(4))


def _integer_matmul(op: Op) -> str:
    left, right = Codes(op.x(0), op.optional(4)), Codes(op.x(1), op.optional(5))
    return _as_floats(op, left, flat(op, 2), right, op.x(3), op.optional(6))


def _as_floats(op: Op, left: Codes, a: str, right: Codes, b: str, bias: str | None) -> str:
    """A product of codes times both scales, with a bias in floats."""
    total = multiply(op, left, right)
    scale = op.point(lambda p, q: p * q, a, op.b.reshape(b, ()) if op.b.shape(b) == (1,) else b)
    if bias is None:
        return op.point(lambda t, s: t.scaled(s), total, scale)
    return op.point(lambda t, s, c: t.scaled(s) + c, total, scale, bias)


def _qgemm(op: Op) -> str:
    """``alpha`` times the product plus 32-bit ``C``; floats when no scale of the result is given."""
    op.need(op.rank(0) == op.rank(3) == 2, "multiplies two matrices.")
    sides = []
    for i, name in ((0, "transA"), (3, "transB")):
        sides.append(op.transpose(op.x(i), (1, 0)) if op.whole(name, 0) else op.x(i))
    total = multiply(op, Codes(sides[0], op.optional(2)), Codes(sides[1], op.optional(5)))
    if op.has(6):
        total = op.point(lambda t, c: t + c.cast(DType.I32), total, op.x(6))
    alpha = op.real("alpha", 1.0)
    scale = op.point(lambda p, q: p * q * alpha, flat(op, 1), flat(op, 4))
    if not op.has(7):
        return op.point(lambda t, s: t.scaled(s), total, scale)
    scale = factor(op, scale, op.const(1.0, DType.F32), flat(op, 7))
    zero = flat(op, 8) if op.has(8) else None
    return requantised(op, total, scale, zero, op.dtype(8) if zero else op.dtype(0))


def _qattention(op: Op) -> tuple[str | None, ...]:
    total = multiply(op, Codes(op.x(0), op.optional(6)), Codes(op.x(1), op.optional(7)))
    scale = op.point(lambda p, q: p * q, flat(op, 3), flat(op, 4))
    projected = op.point(lambda t, s, b: t.scaled(s) + b, total, scale, op.x(2))
    hidden = op.shape(1)[1]
    return attention_of(op, projected, [hidden // 3] * 3, op.optional(5), None, op.optional(8))


def _embed(op: Op) -> tuple[str | None, ...]:
    """EmbedLayerNormalization of tables of codes; places of scales and zero points as in the schema."""
    places = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}
    tables: dict[int, str] = {}
    for i, (scale, zero) in places.items():
        if op.has(i):
            tables[i] = dequantise(op, op.x(i), flat(op, scale), flat(op, zero), DType.F32)
    inputs = [op.x(0), op.optional(1), *(tables.get(i) for i in range(2, 7)), op.optional(7)]
    return tupled(MICROSOFT_FLOATS["EmbedLayerNormalization"](other_inputs(op, *inputs)))


def _reduce_mean(op: Op) -> str:
    keep = op.whole("keepdims", 1)
    return _codes(op, plain(op, "ReduceMean", _floats(op, 0), axes=op.wholes("axes"), keepdims=keep), 3, op.dtype(0))


def _reduce_sum(op: Op) -> str:
    axes = op.axes(op.wholes("axes"), op.rank())
    return op.reduce("sum", op.x(), axes, keep=bool(op.whole("keepdims", 1)), term=lambda x: x.cast(DType.I32))


def _mul_integer(op: Op) -> str:
    sides = []
    for i in (0, 2):
        zero = flat(op, i + 1) if op.has(i + 1) else op.const(0, op.dtype(i))
        sides.append(op.point(lambda x, z: x.cast(DType.I32) - z.cast(DType.I32), op.x(i), zero))
    return op.point(lambda a, b: a * b, *sides)


def _qconv(op: Op) -> str:
    if not op.whole("channels_last", 0):
        return single(STANDARD["QLinearConv"](op))
    return last_to_first(op, lambda x: single(derived(op, "QLinearConv", x, *op.inputs[1:])), op.x())


class _CodedCell(Cell):
    """Weights as codes, [directions, size, gates * hidden]; inputs and states become codes as they come, all at once each.

    ONNX Runtime gives every thread of a batch a scale of its own; here a batch has one.
    """

    hidden_axis = 1

    def with_inputs(self, bias: str | None) -> str:
        return self._product(self.op.x(), 1, 8, bias)

    def recurrent(self, state: str, first: int, count: int, bias: str | None = None) -> str:
        return self.columns(self._product(state, 2, 10, bias), 1, first, count)

    def _product(self, value: str, weights: int, scale: int, bias: str | None) -> str:
        other = copy.copy(self.op)
        other.inputs = (value,)
        codes, factor, zero = dynamic(other)
        point = self._of_direction(scale + 1) if self.op.has(scale + 1) else None
        right = Codes(self.part(weights), point)
        return _as_floats(self.op, Codes(codes, zero), factor, right, self._of_direction(scale), bias)

    def _of_direction(self, i: int) -> str:
        """One scale or zero point, or one per column."""
        value = self.op.slice(self.op.x(i), 0, self.direction, 1)
        return self.op.b.reshape(value, self.op.shape(i)[1:])


TABLE: dict[str, Rule] = {
    "DynamicQuantizeLSTM": lambda op: lstm(op, _CodedCell),
    "QuantizeLinear": STANDARD["QuantizeLinear"],
    "DequantizeLinear": STANDARD["DequantizeLinear"],
    "QLinearAdd": _binary("add"),
    "QLinearMul": _binary("mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _leaky,
    "QLinearSoftmax": _softmax,
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QLinearAveragePool": _pool("AveragePool"),
    "QLinearGlobalAveragePool": _pool("GlobalAveragePool"),
    "QLinearConv": _qconv,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _integer_matmul,
    "QGemm": _qgemm,
    "QAttention": _qattention,
    "QEmbedLayerNormalization": _embed,
    "QLinearReduceMean": _reduce_mean,
    "ReduceSumInteger": _reduce_sum,
    "MulInteger": _mul_integer,
    "MatMulInteger16": lambda op: multiply(op, Codes(op.x(0), None), Codes(op.x(1), None)),
}
