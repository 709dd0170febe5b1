"""Operators that compute point by point."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.tensors import HALVES, element_type
from compiler.ir import DType, Term, const, select


def _unary(make: Callable[[Term], Term], op: Op) -> str:
    return op.point(make, op.x())


def _scalar(name: str) -> Rule:
    return partial(_unary, lambda x: x.op(name))


def _float_only(name: str) -> Rule:
    """Rounding leaves integers as they are."""
    return lambda op: op.point(lambda x: x.op(name), op.x()) if op.dtype().is_float else op.x()


def _binary(make: Callable[[Term, Term], Term], op: Op) -> str:
    a, b = _aligned(op)
    return op.point(make, a, b)


def _aligned(op: Op) -> tuple[str, str]:
    """Both inputs; before operator set 7 the second is placed at ``axis`` of the first."""
    a, b = op.x(0), op.x(1)
    if op.opset < 7 and op.whole("broadcast", 0) and op.b.shape(b) != ():
        axis = op.axis(op.whole("axis", op.rank(0) - op.rank(1)), op.rank(0) + 1)
        after = op.rank(0) - axis - op.rank(1)
        op.need(after >= 0, "the second input does not fit at its axis.")
        b = op.b.reshape(b, (*op.shape(1), *[1] * after))
    op.need(
        op.b.dtype(a) == op.b.dtype(b), f"its inputs have different types, {op.dtype(0).value} and {op.dtype(1).value}."
    )
    return a, b


def _named(name: str) -> Rule:
    return partial(_binary, lambda a, b: a.op(name, b))


def _logic(name: str) -> Rule:
    def rule(op: Op) -> str:
        op.need(op.dtype(0) == DType.BOOL, "takes truth values.")
        return _binary(lambda a, b: a.op(name, b), op)

    return rule


def _variadic(name: str) -> Rule:
    def rule(op: Op) -> str:
        result = op.x(0)
        for i in range(1, len(op.inputs)):
            result = op.point(lambda a, b: a.op(name, b), result, op.x(i))
        return result

    return rule


def _mean(op: Op) -> str:
    total = _variadic("add")(op)
    assert isinstance(total, str)
    return op.point(lambda x: x / float(len(op.inputs)), total)


def _compare(name: str) -> Rule:
    def rule(op: Op) -> str:
        if op.dtype(0) == DType.BOOL and name == "eq":
            return op.point(lambda a, b: a.op("eq", b), op.x(0), op.x(1))
        return _binary(lambda a, b: a.op(name, b), op)

    return rule


def _pow(op: Op) -> str:
    exponent = op.b.known(op.x(1))
    if (
        exponent is not None
        and exponent.size == 1
        and op.dtype().is_float
        and op.broadcast(op.shape(0), op.shape(1)) == op.shape()
    ):
        value = float(exponent.reshape(()))
        simple: dict[float, Callable[[Term], Term]] = {
            1.0: lambda x: x,
            2.0: lambda x: x * x,
            3.0: lambda x: x * x * x,
            0.5: lambda x: x.op("sqrt"),
            -1.0: lambda x: 1.0 / x,
            -0.5: lambda x: x.op("rsqrt"),
        }
        if value in simple:
            return op.x() if value == 1.0 else op.point(simple[value], op.x())
    base, power = op.dtype(0), op.dtype(1)
    if base.is_float or power.is_float:
        wide = base if base.is_float else power
        return op.point(lambda a, b: a.cast(wide).op("pow", b.cast(wide)).cast(base), op.x(0), op.x(1))
    return op.point(lambda a, b: a.op("pow", b.cast(base)), op.x(0), op.x(1))


def _mod(op: Op) -> str:
    name = "fmod" if op.whole("fmod", 0) else "mod"
    return _binary(lambda a, b: a.op(name, b), op)


def _cast(op: Op) -> str:
    return _converted(op, element_type(op.whole("to"), "The result of a Cast"))


def _converted(op: Op, dtype: DType) -> str:
    saturate = op.whole("saturate", 1)
    if dtype.size == 1 and dtype.is_float and saturate:
        return op.point(lambda x: x.saturated(dtype), op.x())
    return op.cast(op.x(), dtype)


def _bit_cast(op: Op) -> str:
    dtype = element_type(op.whole("to"), "The result of a BitCast")
    four = [d in HALVES for d in (dtype, op.dtype())]
    op.need(
        dtype.size == op.dtype().size and four[0] == four[1],
        f"{op.dtype().value} and {dtype.value} are not of one width.",
    )
    return op.point(lambda x: Term("bitcast", (x,), dtype), op.x())


def _cast_like(op: Op) -> str:
    return _converted(op, op.dtype(1))


def _bound(op: Op, i: int, name: str, default: float) -> str | float:
    if op.has(i):
        known = op.b.known(op.x(i))
        op.need(math.prod(op.shape(i)) == 1, "a bound is one number.")
        if known is None:
            return op.x(i)
        return float(known.reshape(()).item()) if op.dtype().is_float else int(known.reshape(()).item())
    return op.real(name, default) if name in op.attributes else default


def _clip(op: Op) -> str:
    result = op.x()
    for i, name, how in ((1, "min", "max"), (2, "max", "min")):
        limit = _bound(op, i, name, math.nan)
        if isinstance(limit, str):
            result = op.point(lambda x, y, how=how: x.op(how, y), result, op.b.reshape(limit, ()))
        elif not math.isnan(limit):
            result = op.point(lambda x, limit=limit, how=how: x.op(how, limit), result)
    return result


def _where(op: Op) -> str:
    op.need(op.dtype(0) == DType.BOOL, "its condition must be truth values.")
    op.need(op.dtype(1) == op.dtype(2), "its two choices have different types.")
    return op.point(select, op.x(0), op.x(1), op.x(2))


def _selu(op: Op) -> str:
    alpha = op.real("alpha", 1.6732631921768188 if op.opset >= 6 else 1.6732)
    gamma = op.real("gamma", 1.0507010221481323 if op.opset >= 6 else 1.0507)
    return op.point(lambda x: select(x.op("gt", 0), x * gamma, (x.op("exp") * alpha - alpha) * gamma), op.x())


def _elu(op: Op) -> str:
    alpha = op.real("alpha", 1.0)
    return op.point(lambda x: select(x.op("lt", 0), (x.op("exp") - 1.0) * alpha, x), op.x())


def _celu(op: Op) -> str:
    alpha = op.real("alpha", 1.0)
    return op.point(lambda x: x.op("max", 0.0) + (((x / alpha).op("exp") - 1.0) * alpha).op("min", 0.0), op.x())


def _leaky(op: Op) -> str:
    alpha = op.real("alpha", 0.01)
    return op.point(lambda x: select(x.op("lt", 0), x * alpha, x), op.x())


def _prelu(op: Op) -> str:
    slope = op.x(1)
    if op.opset < 9 and op.rank(1) == 1 and op.rank(0) > 2:
        slope = op.b.reshape(slope, (op.shape(1)[0], *[1] * (op.rank(0) - 2)))
    return op.point(lambda x, s: select(x.op("lt", 0), x * s, x), op.x(), slope)


def _hard_sigmoid(op: Op) -> str:
    alpha, beta = op.real("alpha", 0.2), op.real("beta", 0.5)
    return op.point(lambda x: (x * alpha + beta).op("min", 1.0).op("max", 0.0), op.x())


def _hard_swish(op: Op) -> str:
    return op.point(lambda x: x * (x * (1 / 6) + 0.5).op("min", 1.0).op("max", 0.0), op.x())


def _softplus(op: Op) -> str:
    return op.point(_softplus_term, op.x())


def _softplus_term(x: Term) -> Term:
    """log(1 + e^x), arranged so that e^x never overflows."""
    return x.op("max", 0.0) + ((-x.op("abs")).op("exp") + 1.0).op("log")


def _mish(op: Op) -> str:
    return op.point(lambda x: x * _softplus_term(x).op("tanh"), op.x())


def gelu(x: Term, approximate: str = "none") -> Term:
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (inner.op("tanh") + 1.0)
    return x * 0.5 * ((x * math.sqrt(0.5)).op("erf") + 1.0)


def _gelu(op: Op) -> str:
    return op.point(lambda x: gelu(x, op.text("approximate", "none")), op.x())


def _swish(op: Op) -> str:
    alpha = op.real("alpha", 1.0)
    return op.point(lambda x: x * (x * alpha if alpha != 1.0 else x).op("sigmoid"), op.x())


def _thresholded(op: Op) -> str:
    alpha = op.real("alpha", 1.0)
    return op.point(lambda x: select(x.op("gt", alpha), x, 0.0), op.x())


def _shrink(op: Op) -> str:
    bias, lambd = op.real("bias", 0.0), op.real("lambd", 0.5)
    dtype = op.dtype()
    bias_value = bias if dtype.is_float else int(bias)
    edge = lambd if dtype.is_float else math.floor(lambd)

    def make(x: Term) -> Term:
        return select(x.op("lt", -edge), x + bias_value, select(x.op("gt", edge), x - bias_value, 0))

    op.need(dtype.is_float or dtype.value.startswith("i"), "unsigned numbers have nothing to shrink towards.")
    return op.point(make, op.x())


def _isinf(op: Op) -> str:
    positive, negative = op.whole("detect_positive", 1), op.whole("detect_negative", 1)
    if positive and negative:
        return op.point(lambda x: x.op("isinf"), op.x())
    if not (positive or negative):
        return op.const(np.zeros(op.shape()), DType.BOOL)
    return op.point(lambda x: x.op("eq", math.inf if positive else -math.inf), op.x())


def _bitshift(op: Op) -> str:
    return _named("shl" if op.text("direction") == "LEFT" else "shr")(op)  # type: ignore[return-value]


def _relu(op: Op) -> str:
    return op.point(lambda x: x.op("max", 0), op.x())


def _not(op: Op) -> str:
    op.need(op.dtype() == DType.BOOL, "takes truth values.")
    return op.point(lambda x: x.op("not"), op.x())


def _identity(op: Op) -> str:
    return op.x()


def _dropout(op: Op) -> tuple[str | None, ...]:
    """Inference: the input itself; training mode needs random numbers."""
    if op.has(2) and bool(op.known(2, "the training mode").reshape(-1)[0]):
        op.need(
            op.has(1) and float(op.known(1, "the ratio").reshape(-1)[0]) == 0.0,
            "draws random numbers in training mode.",
        )
    mask = op.const(np.ones(op.shape()), DType.BOOL) if op.outputs > 1 else None
    return op.x(), mask


UNARY = {
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Neg": "neg",
    "Abs": "abs",
    "Sign": "sign",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "IsNaN": "isnan",
    "BitwiseNot": "bitnot",
}
BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "BitwiseAnd": "bitand",
    "BitwiseOr": "bitor",
    "BitwiseXor": "bitxor",
}
TABLE: dict[str, Rule] = {
    **{name: _scalar(scalar) for name, scalar in UNARY.items()},
    **{name: _float_only(scalar) for name, scalar in {"Floor": "floor", "Ceil": "ceil", "Round": "round"}.items()},
    **{name: _named(scalar) for name, scalar in BINARY.items()},
    **{name: _logic(scalar) for name, scalar in {"And": "and", "Or": "or", "Xor": "xor"}.items()},
    **{
        name: _compare(scalar)
        for name, scalar in {
            "Equal": "eq",
            "Less": "lt",
            "LessOrEqual": "le",
            "Greater": "gt",
            "GreaterOrEqual": "ge",
        }.items()
    },
    **{name: _variadic(scalar) for name, scalar in {"Sum": "add", "Min": "min", "Max": "max"}.items()},
    "Not": _not,
    "Mean": _mean,
    "Pow": _pow,
    "Mod": _mod,
    "Cast": _cast,
    "CastLike": _cast_like,
    "BitCast": _bit_cast,
    "Clip": _clip,
    "Where": _where,
    "Relu": _relu,
    "Reciprocal": partial(_unary, lambda x: 1.0 / x),
    "Selu": _selu,
    "Elu": _elu,
    "Celu": _celu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Softplus": _softplus,
    "Softsign": partial(_unary, lambda x: x / (x.op("abs") + 1.0)),
    "Mish": _mish,
    "Gelu": _gelu,
    "Swish": _swish,
    "ThresholdedRelu": _thresholded,
    "Shrink": _shrink,
    "IsInf": _isinf,
    "BitShift": _bitshift,
    "Identity": _identity,
    "Dropout": _dropout,
}
__all__ = ["TABLE", "const", "gelu"]
