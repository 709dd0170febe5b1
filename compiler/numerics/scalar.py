"""The scalar operators: one table for the representation, the instruction set, the interpreter and the simulator.

Every operator has a stable integer code (it is what binaries hold), an arity, a rule for its result type and a meaning on
NumPy arrays. + - * / and square root are IEEE 754 operations, so NumPy's are exact; everything else about floats is defined in
``compiler.numerics.functions``. Signed zeros, NaN, division by zero and casts out of range have one defined result here,
because processors and NumPy versions differ in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from compiler.numerics import functions as f
from compiler.numerics.exact import Array

DType = np.dtype[Any]
Meaning = Callable[..., Array]
_BLOCK = 1 << 15  # elements per call of a function: temporaries stay in the cache


@dataclass(frozen=True)
class ScalarOp:
    """One operator.

    ``result``: ``same`` (arguments are widened to the step's type first, then the result has it), ``bool`` (arguments of one
    type, a truth value comes out), ``cast`` (any argument, the step's type comes out). ``select`` counts as ``same`` but for
    its first argument, a truth value. ``scale``: a whole number and a float, the float's type comes out. ``muladd``: any
    number and two floats, the floats' type comes out. ``kinds``: NumPy kinds of the argument type: f float, i signed,
    u unsigned, b bool. ``operations``: what one element is billed.
    """

    name: str
    code: int
    arity: int
    result: str
    kinds: str
    meaning: Meaning
    operations: int = 1


def _function(kernel: Callable[[Array], Array]) -> Meaning:
    """A function of float64 as one of any float type, computed in blocks and rounded once."""

    def meaning(x: Array) -> Array:
        flat = np.ascontiguousarray(x).reshape(-1)
        out = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            out[start : start + _BLOCK] = kernel(flat[start : start + _BLOCK].astype(np.float64))
        return out.reshape(np.shape(x))

    return meaning


def is_stored(dtype: DType) -> bool:
    """Whether NumPy itself does not have the type: it is stored and converted, and nothing is computed in it."""
    return dtype.isbuiltin == 2  # as NumPy marks types that another package brings


def _is_small_float(dtype: DType) -> bool:
    return "float" in dtype.name


def _kind(dtype: DType) -> str:
    return "stored" if is_stored(dtype) else dtype.kind


def _div(a: Array, b: Array) -> Array:
    """Floats: IEEE. Integers: truncated towards zero as in C, wrapping; by zero: zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, quotient).astype(a.dtype)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return np.where(b == 0, 0, quotient + inexact).astype(a.dtype)


def _mod(a: Array, b: Array) -> Array:
    """Remainder with the divisor's sign (integers: by zero is zero)."""
    if a.dtype.kind != "f":
        return np.where(b == 0, 0, np.remainder(a, np.where(b == 0, 1, b).astype(a.dtype))).astype(a.dtype)
    r = np.fmod(a, b)
    return np.where((r != 0) & ((r < 0) != (b < 0)), r + b, np.where(r == 0, np.copysign(r, b), r))


def _fmod(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign, as C's ``fmod`` (which is exact) and integer ``%``; by zero is zero for integers."""
    if a.dtype.kind == "f":
        return np.asarray(np.fmod(a, b))
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b).astype(a.dtype))).astype(a.dtype)


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        out = f.power(a.astype(np.float64), b.astype(np.float64))
        return out.astype(a.dtype)
    base, exponent = np.broadcast_arrays(a, b)
    result = np.ones_like(base)
    base = base.copy()
    left = np.where(exponent > 0, exponent, 0).astype(np.uint64)
    while left.any():
        result = np.where(left & np.uint64(1), result * base, result)
        base = base * base
        left = left >> np.uint64(1)
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0)) if a.dtype.kind == "i" else 0
    return np.where(b < 0, inverse, result).astype(a.dtype)


def _min(a: Array, b: Array) -> Array:
    """The smaller; NaN if either is; of two zeros the first."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    if not b.ndim and b == b:  # the same with fewer comparisons, where one is a number
        return np.where(a > b, b, a)
    return np.where((a <= b) | (a != a), a, b)


def _max(a: Array, b: Array) -> Array:
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    if not b.ndim and b == b:
        return np.where(a < b, b, a)
    return np.where((a >= b) | (a != a), a, b)


def _sign(a: Array) -> Array:
    if a.dtype.kind == "f":
        return np.where(a != a, a, (a > 0).astype(a.dtype) - (a < 0).astype(a.dtype))
    return np.asarray((a > 0).astype(a.dtype) - (a < 0).astype(a.dtype), a.dtype)


def cast(x: Array, dtype: DType) -> Array:
    """``x`` as ``dtype``: floats round to even; float to integer truncates, saturates, takes NaN to 0; integers wrap.

    Types that are only stored (bfloat16, float8, 4 bits) come from float32 or an integer, and go through them: a float64 is
    rounded to float32 first. What is beyond a float8 becomes its infinity, or NaN where it has none; 4 bits are the lowest
    ones of the 8 that ``x`` is as an int8.
    """
    if is_stored(x.dtype):
        x = x.astype(np.float32 if _is_small_float(x.dtype) else np.int8)
    if is_stored(dtype) and _is_small_float(dtype):
        return x.astype(np.float32).astype(dtype)
    if is_stored(dtype):
        return cast(x, np.dtype(np.int8)).astype(dtype)
    if x.dtype.kind != "f" or dtype.kind == "f":
        return x.astype(dtype)
    if dtype.kind == "b":
        return np.asarray(x != 0)
    limits = np.iinfo(dtype)
    if dtype.itemsize <= 2:  # both limits are numbers of a 32-bit float
        near = np.asarray(np.trunc(x if x.dtype.itemsize > 2 else x.astype(np.float32)))
        np.clip(near, limits.min, limits.max, out=near)
        near[near != near] = 0
        return near.astype(dtype)
    wide = np.trunc(x.astype(np.float64))
    low, high = float(limits.min), float(limits.max)  # the high limit of 64-bit types rounds up to 2**63 or 2**64
    inside = (wide >= low) & (wide < high)
    out = np.where(inside, wide, 0.0).astype(dtype)
    out = np.where(wide >= high, limits.max, out)
    return np.where(wide < low, limits.min, out).astype(dtype)


def nearest(x: Array, dtype: DType) -> Array:
    """``x`` as an integer ``dtype``: rounded to the nearest (half to even), saturated, NaN to 0: how results are quantised."""
    limits = ml_dtypes.iinfo(dtype)
    return cast(np.clip(np.rint(x), limits.min, limits.max) if is_stored(dtype) else np.rint(x), dtype)


def _scaled(a: Array, b: Array) -> Array:
    """A whole number converted to the factor's type (rounded to even), then multiplied: two roundings in one operation."""
    return np.asarray(a.astype(b.dtype) * b)


def _muladd(x: Array, factor: Array, addend: Array) -> Array:
    """``x`` converted to the factor's type (rounded to even), times the factor, rounded, plus the addend, rounded."""
    return np.asarray(x.astype(factor.dtype) * factor + addend)


def bitcast(x: Array, dtype: DType) -> Array:
    """The bits of ``x`` as ``dtype``, which is as wide; a truth value is the byte 0 or 1, and any other byte is true."""
    bits = x.astype(np.uint8) if x.dtype.kind == "b" else np.ascontiguousarray(x).reshape(np.shape(x))
    return np.asarray(bits != 0) if dtype.kind == "b" else bits.view(dtype)


def _shift(kernel: Callable[[Array, Array], Array]) -> Meaning:
    """Shifts by the width or more give 0 (right shifts of negative numbers: -1)."""

    def meaning(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        amount = np.minimum(b.astype(np.uint64), bits - 1).astype(a.dtype)
        done = kernel(a, amount)
        if kernel is np.right_shift and a.dtype.kind == "i":
            return done.astype(a.dtype)
        return np.where(b.astype(np.uint64) >= bits, 0, done).astype(a.dtype)

    return meaning


FREE_CODES = {"arg": 0, "const": 1, "index": 2}
NUMBER, FLOAT, WHOLE = "fiu", "f", "iu"

_TABLE: tuple[tuple[int, str, int, str, str, Meaning], ...] = (
    (16, "add", 2, "same", NUMBER, np.add),
    (17, "sub", 2, "same", NUMBER, np.subtract),
    (18, "mul", 2, "same", NUMBER, np.multiply),
    (19, "div", 2, "same", NUMBER, _div),
    (20, "mod", 2, "same", NUMBER, _mod),
    (21, "fmod", 2, "same", NUMBER, _fmod),
    (22, "neg", 1, "same", NUMBER, np.negative),
    (23, "abs", 1, "same", NUMBER, np.abs),
    (24, "sqrt", 1, "same", FLOAT, np.sqrt),
    (25, "rsqrt", 1, "same", FLOAT, _function(f.rsqrt)),
    (26, "exp", 1, "same", FLOAT, _function(f.exp)),
    (27, "log", 1, "same", FLOAT, _function(f.log)),
    (28, "sin", 1, "same", FLOAT, _function(f.sin)),
    (29, "cos", 1, "same", FLOAT, _function(f.cos)),
    (30, "tan", 1, "same", FLOAT, _function(f.tan)),
    (31, "asin", 1, "same", FLOAT, _function(f.asin)),
    (32, "acos", 1, "same", FLOAT, _function(f.acos)),
    (33, "atan", 1, "same", FLOAT, _function(f.atan)),
    (34, "sinh", 1, "same", FLOAT, _function(f.sinh)),
    (35, "cosh", 1, "same", FLOAT, _function(f.cosh)),
    (36, "tanh", 1, "same", FLOAT, _function(f.tanh)),
    (37, "asinh", 1, "same", FLOAT, _function(f.asinh)),
    (38, "acosh", 1, "same", FLOAT, _function(f.acosh)),
    (39, "atanh", 1, "same", FLOAT, _function(f.atanh)),
    (40, "erf", 1, "same", FLOAT, _function(f.erf)),
    (41, "sigmoid", 1, "same", FLOAT, _function(f.sigmoid)),
    (42, "pow", 2, "same", NUMBER, _pow),
    (43, "floor", 1, "same", FLOAT, np.floor),
    (44, "ceil", 1, "same", FLOAT, np.ceil),
    (45, "round", 1, "same", FLOAT, np.rint),
    (46, "trunc", 1, "same", FLOAT, np.trunc),
    (47, "sign", 1, "same", NUMBER, _sign),
    (48, "min", 2, "same", NUMBER, _min),
    (49, "max", 2, "same", NUMBER, _max),
    (50, "eq", 2, "bool", "fiub", np.equal),
    (51, "ne", 2, "bool", "fiub", np.not_equal),
    (52, "lt", 2, "bool", NUMBER, np.less),
    (53, "le", 2, "bool", NUMBER, np.less_equal),
    (54, "gt", 2, "bool", NUMBER, np.greater),
    (55, "ge", 2, "bool", NUMBER, np.greater_equal),
    (56, "and", 2, "same", "b", np.logical_and),
    (57, "or", 2, "same", "b", np.logical_or),
    (58, "xor", 2, "same", "b", np.logical_xor),
    (59, "not", 1, "same", "b", np.logical_not),
    (60, "bitand", 2, "same", WHOLE, np.bitwise_and),
    (61, "bitor", 2, "same", WHOLE, np.bitwise_or),
    (62, "bitxor", 2, "same", WHOLE, np.bitwise_xor),
    (63, "bitnot", 1, "same", WHOLE, np.bitwise_not),
    (64, "shl", 2, "same", WHOLE, _shift(np.left_shift)),
    (65, "shr", 2, "same", WHOLE, _shift(np.right_shift)),
    (66, "select", 3, "same", "fiub", np.where),
    (67, "cast", 1, "cast", "fiub", cast),
    (68, "isnan", 1, "bool", FLOAT, np.isnan),
    (69, "isinf", 1, "bool", FLOAT, np.isinf),
    (70, "scale", 2, "scale", WHOLE, _scaled),
    (71, "nearest", 1, "cast", FLOAT, nearest),
    (72, "bitcast", 1, "cast", "fiub", bitcast),
    (73, "muladd", 3, "muladd", NUMBER, _muladd),
)
OPERATIONS = {"muladd": 2}  # the billed operations of one element, where it is not one

SCALAR: dict[str, ScalarOp] = {
    name: ScalarOp(name, code, arity, result, kinds, meaning, OPERATIONS.get(name, 1))
    for code, name, arity, result, kinds, meaning in _TABLE
}
CODES: dict[str, int] = FREE_CODES | {name: op.code for name, op in SCALAR.items()}
NAMES: dict[int, str] = {code: name for name, code in CODES.items()}


def may_widen(source: DType, target: DType) -> bool:
    """Whether an argument of type ``source`` may stand where ``target`` is computed: equal, or a conversion without loss."""
    return source == target or (source.kind != "b" and target.kind != "b" and bool(np.can_cast(source, target, "safe")))


def check(name: str, arguments: Sequence[DType], dtype: DType) -> str | None:
    """Why ``name`` cannot take these argument types to ``dtype``; None when it can."""
    op = SCALAR.get(name)
    if op is None:
        return f"there is no scalar operator {name!r}"
    if len(arguments) != op.arity:
        return f"{name} takes {op.arity} arguments, not {len(arguments)}"
    rest = list(arguments)
    if name == "select" and rest.pop(0).kind != "b":
        return "select chooses by a truth value"
    if op.result == "cast":
        return _check_cast(name, rest[0], dtype)
    if op.result in ("scale", "muladd"):
        return _check_scaled(op, rest, dtype)
    if op.result == "bool":
        return _check_comparison(op, rest, dtype)
    if _kind(dtype) not in op.kinds and name != "select":
        return f"{name} is not defined for {dtype}"
    return None if all(may_widen(a, dtype) for a in rest) else f"{name} would lose digits of {rest} in {dtype}"


def _check_comparison(op: ScalarOp, arguments: list[DType], dtype: DType) -> str | None:
    if dtype.kind != "b" or _kind(arguments[0]) not in op.kinds or any(a != arguments[0] for a in arguments):
        return f"{op.name} compares two values of one type to a truth value, not {arguments} to {dtype}"
    return None


def _check_scaled(op: ScalarOp, arguments: list[DType], dtype: DType) -> str | None:
    first, *rest = arguments
    fits = _kind(dtype) == "f"
    if op.result == "scale":
        fits = fits and _kind(first) in op.kinds and rest[0] == dtype
        return (
            None if fits else f"scale takes a whole number and a float of the result's type, not {arguments} to {dtype}"
        )
    fits = fits and (may_widen(first, dtype) if _kind(first) in ("f", "stored") else first.kind in op.kinds)
    fits = fits and all(may_widen(a, dtype) for a in rest)
    return None if fits else f"muladd takes a number and two floats of the result's type, not {arguments} to {dtype}"


def _check_cast(name: str, argument: DType, dtype: DType) -> str | None:
    if name == "bitcast":
        return None if argument.itemsize == dtype.itemsize else f"bitcast keeps the width, not {argument} to {dtype}"
    whole = dtype.kind in "iu" or dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
    if name == "cast" or (_kind(argument) == "f" and whole):
        return None
    return f"{name} takes a float to a whole number, not {argument} to {dtype}"


def apply(name: str, arguments: Sequence[Array], dtype: DType) -> Array:
    """Operator ``name`` on arrays (which broadcast), giving ``dtype``; the arguments passed ``check``."""
    with np.errstate(all="ignore"):
        return _apply(name, arguments, dtype)


def _apply(name: str, arguments: Sequence[Array], dtype: DType) -> Array:
    op = SCALAR[name]
    if op.result == "cast":
        return op.meaning(np.asarray(arguments[0]), dtype)
    if op.result in ("bool", "scale"):
        return np.asarray(op.meaning(*arguments))
    if op.result == "muladd":
        return np.asarray(op.meaning(arguments[0], *[np.asarray(a, dtype) for a in arguments[1:]]))
    if name == "select":
        condition, a, b = arguments
        return np.where(condition, np.asarray(a, dtype), np.asarray(b, dtype))
    return np.asarray(op.meaning(*[np.asarray(a, dtype) for a in arguments]))


def evaluate(
    steps: Sequence[tuple[str, tuple[int, ...], DType, int | float | None]],
    operand: Callable[[int], Array],
    index: Callable[[int], Array],
) -> Array:
    """A straight-line program: step i may use earlier steps, the last is the result (see ``compiler.ir.expr``)."""
    values: list[Array] = []
    with np.errstate(all="ignore"):
        for op, arguments, dtype, imm in steps:
            if op == "arg":
                values.append(operand(int(imm or 0)))
            elif op == "const":
                values.append(np.asarray(imm, dtype))
            elif op == "index":
                values.append(index(int(imm or 0)).astype(dtype, copy=False))
            else:
                values.append(_apply(op, [values[i] for i in arguments], dtype))
    return values[-1]
