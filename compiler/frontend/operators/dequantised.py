"""Products of dequantised values: contractions of the codes themselves, scaled afterwards.

A model in the quantise-dequantise form says where codes are; multiplying the codes gives the same sums (more exactly, since
nothing is rounded before the end), and the next QuantizeLinear then ends the same contraction.
"""

from __future__ import annotations

from math import prod

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators import contraction
from compiler.frontend.operators.codes import DEEPEST, NARROW, Codes, known_zero, multiply, slide
from compiler.ir.builder import Dequantised


def _factors(op: Op, axis: int) -> tuple[Dequantised, Dequantised] | None:
    """Both factors as codes: the first with one scale, the second constant with one or one along ``axis``."""
    found = [op.b.dequantised.get(op.x(i)) for i in (0, 1)]
    first, second = found
    if first is None or second is None:
        return None
    narrow = all(op.b.dtype(d.value) in NARROW for d in (first, second))
    rank = len(op.b.shape(second.value))
    fits = first.axis is None and second.axis in (None, axis % rank)
    known = op.b.known(second.value) is not None and known_zero(op, first.zero) is not None
    return (first, second) if narrow and fits and known else None


def _scaled(op: Op, total: str, first: Dequantised, second: Dequantised, behind: int, bias: str | None) -> str:
    """Sums of codes as floats; the channel has ``behind`` dimensions after it."""
    scale = op.point(lambda p, q: p * q, op.b.reshape(first.scale, ()), _flat(op, second.scale))
    shape = op.b.shape(scale)
    if shape:
        scale = op.b.reshape(scale, (*shape, *[1] * behind))
    if bias is None:
        return op.point(lambda t, s: t.scaled(s), total, scale)
    if len(op.b.shape(bias)) == 1:
        bias = op.b.reshape(bias, (*op.b.shape(bias), *[1] * behind))
    return op.point(lambda t, s, c: t.scaled(s) + c, total, scale, bias)


def _flat(op: Op, value: str) -> str:
    return op.b.reshape(value, ()) if op.b.shape(value) == (1,) else value


def _conv(op: Op) -> str:
    found = _factors(op, 0)
    if found is None or op.rank() < 3 or prod(op.shape(1)[1:]) > DEEPEST:
        return _plain("Conv", op)
    first, second = found
    total = slide(op, Codes(first.value, first.zero), Codes(second.value, second.zero), None)
    return _scaled(op, total, first, second, op.rank() - 2, op.optional(2))


def _matmul(op: Op) -> str:
    found = _factors(op, -1)
    if found is None or min(op.rank(0), op.rank(1)) < 2 or op.shape()[-1] > DEEPEST:
        return _plain("MatMul", op)
    first, second = found
    total = multiply(op, Codes(first.value, first.zero), Codes(second.value, second.zero))
    return _scaled(op, total, first, second, 0, None)


def _gemm(op: Op) -> str:
    turned = bool(op.whole("transB", 0))
    found = _factors(op, 0 if turned else 1)
    plain = op.real("alpha", 1.0) == op.real("beta", 1.0) == 1.0 and not op.whole("transA", 0)
    if found is None or not plain or op.rank() != 2 or op.rank(1) != 2 or op.shape()[-1] > DEEPEST:
        return _plain("Gemm", op)
    first, second = found
    weights = Codes(second.value, second.zero)
    if turned:
        weights = Codes(op.transpose(second.value, (1, 0)), second.zero)
    total = multiply(op, Codes(first.value, first.zero), weights)
    return _scaled(op, total, first, second, 0, op.optional(2))


def _plain(kind: str, op: Op) -> str:
    done = contraction.TABLE[kind](op)
    assert isinstance(done, str)
    return done


TABLE: dict[str, Rule] = {"Conv": _conv, "MatMul": _matmul, "Gemm": _gemm}
