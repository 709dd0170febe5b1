"""Double-double helpers and bit manipulation, the tools of the functions in ``compiler.numerics.functions``.

Everything here is + - * / on float64, rounded to nearest, and integer operations on its bits: IEEE 754 fixes every result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SPLIT = 134217729.0  # 2**27 + 1, Veltkamp's constant for float64


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``a + b`` as rounded sum and exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """``a * b`` as rounded product and exact error (Dekker), without a fused multiply-add."""
    p = a * b
    ah = _SPLIT * a
    ah = ah - (ah - a)
    bh = _SPLIT * b
    bh = bh - (bh - b)
    al = a - ah
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Horner's rule; ``coefficients`` from the constant term upwards."""
    result = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result *= x
        result += c
    return result


def power_of_two(n: Array) -> Array:
    """``2.0 ** n`` for int64 ``n`` in [-1022, 1023], made from its bits."""
    return ((n + 1023) << 52).view(np.float64)


def scale(x: Array, n: Array) -> Array:
    """``x * 2**n`` for int64 ``n`` in [-2044, 2046]; the second factor rounds into the subnormals once."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def split_exponent(x: Array) -> tuple[Array, Array]:
    """Positive finite ``x`` as mantissa in [sqrt(1/2), sqrt(2)) and integer exponent."""
    tiny = x < 2.2250738585072014e-308
    x = np.where(tiny, x * 18014398509481984.0, x)
    bits = np.ascontiguousarray(x).view(np.int64)
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    large = mantissa >= 1.4142135623730951
    mantissa = np.where(large, mantissa * 0.5, mantissa)
    return mantissa, exponent + large - np.where(tiny, 54, 0)
