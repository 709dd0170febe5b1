"""Draws of elementwise operators: broadcasting, types, limits, comparisons, casts."""

from __future__ import annotations

import numpy as np

from tests.compiler.odd.draft import FLOATS, WHOLES, Draft, Unfit

UNARY = (
    "Abs",
    "Neg",
    "Ceil",
    "Floor",
    "Round",
    "Exp",
    "Log",
    "Sqrt",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Erf",
    "Sigmoid",
    "Relu",
    "Softplus",
    "Softsign",
    "Sign",
    "Reciprocal",
    "HardSwish",
    "Mish",
    "Identity",
    "IsNaN",
)
SCALED = {
    "Elu": ("alpha",),
    "LeakyRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "Celu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "ThresholdedRelu": ("alpha",),
    "Shrink": ("lambd", "bias"),
    "Swish": ("alpha",),
}


def unary(d: Draft) -> None:
    kind = d.one(*UNARY)
    whole = kind in ("Abs", "Neg", "Sign", "Relu", "Identity") and d.chance(0.3)
    d.node(kind, [d.value(dtypes=WHOLES if whole else FLOATS)])


def scaled(d: Draft) -> None:
    kind = d.one(*SCALED)
    given = {n: round(float(d.rng.normal()) + 0.5, 2) for n in SCALED[kind] if d.chance(0.7)}
    d.node(kind, [d.value()], **given)


def _partner(d: Draft, name: str) -> str:
    """Something of the same type that broadcasts with a value."""
    shape = list(d.like(name).shape)
    other = [1 if d.chance(0.3) else n for n in shape][d.whole(0, len(shape)) if d.chance(0.4) else 0 :]
    if d.chance(0.2):
        other = [d.one(1, 2, 3), *other] if len(other) == len(shape) else other
    dtype = d.like(name).dtype
    known = [n for n in d.made if d.like(n).dtype == dtype and d.like(n).shape == tuple(shape)]
    if known and d.chance(0.5):
        return str(d.one(*known))
    return d.either(d.array(other, dtype))


def binary(d: Draft) -> None:
    kind = d.one("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean", "Pow", "PRelu", "Mod", "Add", "Mul")
    a = d.value(dtypes=WHOLES if kind not in ("Sum", "Mean") and d.chance(0.3) else FLOATS)
    b = _partner(d, a)
    whole = d.like(a).dtype.kind in "iu"
    if kind in ("Div", "Mod"):
        safe = d.like(b)
        d.values[b] = safe = np.where(safe == 0, 1, safe).astype(safe.dtype) if b not in d.made else safe
        if whole and not safe.all():
            raise Unfit("division by nothing")
    if kind == "Mod":
        d.node(kind, [a, b], fmod=1 if not whole or d.chance(0.5) else 0)
    elif kind == "Pow":
        power = d.const(d.array(d.like(b).shape, d.one(np.int64, np.float32, np.int32)) % 4)
        d.node(kind, [a, power])
    elif kind in ("Min", "Max", "Sum", "Mean"):
        d.node(kind, [a, b, *([_partner(d, a)] if d.chance(0.3) else [])])
    else:
        pair = [a, b] if d.chance(0.6) or kind in ("PRelu", "Div") else [b, a]
        d.node(kind, pair)


def compared(d: Draft) -> None:
    kind = d.one("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
    a = d.value(dtypes=d.one(FLOATS, WHOLES))
    d.node(kind, [a, _partner(d, a)])


def logical(d: Draft) -> None:
    a = d.value(dtypes=[np.bool_])
    if d.chance(0.3):
        d.node("Not", [a])
    else:
        d.node(d.one("And", "Or", "Xor"), [a, _partner(d, a)])


def bits(d: Draft) -> None:
    if d.chance(0.4):
        a = d.value(dtypes=(np.uint8, np.uint32, np.uint64))
        many = d.const((d.array(d.like(a).shape, d.like(a).dtype) % 7).astype(d.like(a).dtype))
        d.node("BitShift", [a, many], direction=d.one("LEFT", "RIGHT"))
        return
    a = d.value(dtypes=(np.uint8, np.int8, np.int32, np.int64))
    kind = d.one("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
    d.node(kind, [a] if kind == "BitwiseNot" else [a, _partner(d, a)])


def clip(d: Draft) -> None:
    a = d.value(dtypes=WHOLES if d.opset >= 12 and d.chance(0.3) else FLOATS)
    dtype = d.like(a).dtype
    low, high = sorted((d.whole(0 if dtype.kind == "u" else -2, 2), d.whole(0, 3)))
    if d.chance(0.1):
        low, high = high, low  # the standard says what comes out
    if d.opset < 11:
        d.node("Clip", [a], **{k: float(v) for k, v in (("min", low), ("max", high)) if d.chance(0.8)})
        return
    sides = [d.either(np.array(v, dtype)) if d.chance(0.75) else "" for v in (low, high)]
    d.node("Clip", [a, *sides] if sides[1] else [a, sides[0]] if sides[0] else [a])


def cast(d: Draft) -> None:
    kinds = (np.float32, np.float16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_, np.int16, np.uint16)
    a = d.value(dtypes=kinds)
    to = np.dtype(d.one(*kinds))
    array = d.like(a).astype(np.float64) if d.like(a).dtype == np.float16 else d.like(a)
    if array.dtype.kind == "f" and to.kind in "iu" and array.size:
        limits = np.iinfo(to)
        if array.min() <= limits.min - 1 or array.max() >= limits.max:
            raise Unfit("outside the type")
    from onnx import helper

    if d.chance(0.2) and d.opset >= 15:
        d.node("CastLike", [a, d.const(np.zeros(1, to))])
    else:
        d.node("Cast", [a], to=helper.np_dtype_to_tensor_dtype(to))


def where(d: Draft) -> None:
    a = d.value(dtypes=(*FLOATS, *WHOLES, np.bool_))
    b = _partner(d, a)
    shape = [1 if d.chance(0.3) else n for n in d.like(a).shape]
    known = [n for n in d.made if d.like(n).dtype == np.bool_ and d.like(n).shape == d.like(a).shape]
    c = str(d.one(*known)) if known and d.chance() else d.either(d.array(shape, np.bool_))
    d.node("Where", [c, a, b] if d.chance() else [c, b, a])


def infinite(d: Draft) -> None:
    array = d.array(d.shape(most=4), d.one(np.float32, np.float64))
    array = np.where(d.rng.random(array.shape) < 0.4, d.one(np.inf, -np.inf, np.nan), array).astype(array.dtype)
    kind = d.one("IsInf", "IsNaN", "Max", "Min", "Relu", "Equal", "Sign", "Where")
    a = d.input(np.asarray(array))
    if kind == "IsInf":
        d.node(kind, [a], **{n: d.whole(0, 1) for n in ("detect_negative", "detect_positive") if d.chance()})
    elif kind in ("Max", "Min", "Equal"):
        d.node(kind, [a, _partner(d, a)])
    elif kind == "Where":
        d.node(kind, [d.input(d.array(array.shape, np.bool_)), a, d.const(np.zeros((), array.dtype))])
    else:
        d.node(kind, [a])


def gelu(d: Draft) -> None:
    d.node("Gelu", [d.value()], **({"approximate": d.one("none", "tanh")} if d.chance(0.7) else {}))


MAKERS = [unary, unary, scaled, binary, binary, compared, logical, bits, clip, cast, where, infinite, gelu]
