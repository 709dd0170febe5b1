"""Transcendental functions as declared polynomials: the same bits on every machine.

``np.exp`` and its relatives come from the C library or from vector code that differs between processors, so none is used.
Each function here is range reduction plus a polynomial (or, for ``erf``, one more polynomial) in float64 arithmetic that
IEEE 754 defines bit by bit. Results are within a few units in the last place of float64; float32 and float16 results
are the float64 result rounded once, so they are almost always the correctly rounded ones.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from compiler.numerics.exact import Array, polynomial, scale, split_exponent, two_product, two_sum
from compiler.numerics.quadrant import reduce_angle

LN2_HIGH, LN2_LOW = 0.6931471805592082, 7.371002565167799e-13  # the high part has 40 bits: exact times an exponent
LOG2_E = 1.4426950408889634
PI_HALF, PI_HALF_LOW = 1.5707963267948966, 6.123233995736766e-17

_EXP = tuple(1.0 / factorial(n) for n in range(14))
_SIN = tuple((-1.0) ** n / factorial(2 * n + 1) for n in range(9))
_COS = tuple((-1.0) ** n / factorial(2 * n) for n in range(9))
_SINH = tuple(1.0 / factorial(2 * n + 1) for n in range(9))
_ATAN = tuple((-1.0) ** n / (2 * n + 1) for n in range(13))
_LOG = tuple(2.0 / (2 * n + 3) for n in range(11))
_ERF = tuple((-1.0) ** n * 1.1283791670955126 / (factorial(n) * (2 * n + 1)) for n in range(18))
# (1 + 2x) exp(x^2) erfc(x) at t = (x - 3.75) / (x + 3.75): Chebyshev interpolation in 60-digit arithmetic, then powers of t.
_ERFCX = (
    1.2375126308378275,
    -0.14024059858554702,
    0.0035854154854644293,
    0.08227673849015102,
    -0.10880393014174886,
    0.09230432116019834,
    -0.05869339858963677,
    0.0283622774215156,
    -0.009746579558029276,
    0.0017556258324217529,
    0.0002937136655913448,
    -0.00029015397928986765,
    5.164909889268241e-05,
    2.2383912036550678e-05,
    -1.1444146237700524e-05,
    -9.72849582211122e-07,
    1.751637648849062e-06,
    -5.826281078800777e-08,
    -2.5866850716155884e-07,
    2.4289765492488707e-08,
    3.8675334242222354e-08,
    -4.389284159986328e-09,
    -5.1739902140113095e-09,
    5.457157304704688e-10,
    4.2514714447963895e-10,
    -3.75315827795962e-11,
)


def exp(x: Array) -> Array:
    return _exp(x, None)


def _exp(x: Array, low: Array | None) -> Array:
    """``exp(x + low)`` with ``|low|`` far below one unit of ``x``."""
    inside = np.where(x != x, 0.0, np.minimum(np.maximum(x, -800.0), 800.0))
    n = np.rint(inside * LOG2_E)
    r = (inside - n * LN2_HIGH) - n * LN2_LOW
    if low is not None:
        r = r + low
    y = scale(polynomial(r, _EXP), n.astype(np.int64))
    return np.where(x != x, x, y)


def _log(x: Array) -> tuple[Array, Array]:
    """Natural logarithm of positive finite ``x`` in double-double: about 2**-62 relative."""
    m, e = split_exponent(x)
    f = m - 1.0
    d = 2.0 + f
    d_low = f - (d - 2.0)
    s = f / d
    p, p_low = two_product(s, d)
    s_low = ((f - p) - p_low - s * d_low) / d
    z = s * s
    n = e.astype(np.float64)
    high, low = two_sum(n * LN2_HIGH, 2.0 * s)
    return two_sum(high, low + (n * LN2_LOW + (2.0 * s_low + s * z * polynomial(z, _LOG))))


def log(x: Array) -> Array:
    positive = (x > 0) & (x < np.inf)
    high, low = _log(np.where(positive, x, 1.0))
    outside = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, x))
    return np.where(positive, high + low, outside)


def _log1p(u: Array) -> Array:
    """``log(1 + u)`` for ``u > -1`` without losing small ``u`` (Kahan's correction)."""
    w = 1.0 + u
    safe = np.where((w == 1.0) | (w == np.inf), 2.0, w)
    high, low = _log(np.where(safe > 0, safe, 1.0))
    near = (high + low) * (u / (safe - 1.0))
    return np.where((w == 1.0) | (w == np.inf), u, near)


def power(x: Array, y: Array) -> Array:
    """IEEE 754 ``pow``."""
    a = np.abs(x)
    usual = (a > 0) & (a < np.inf)
    high, low = _log(np.where(usual, a, 1.0))
    p, p_low = two_product(y, high)
    p_low = p_low + y * low
    edge = np.where(a == 0, -np.inf, np.where(a == np.inf, np.inf, a)) * y
    p = np.where(usual, p, edge)
    result = _exp(p, np.where(np.isfinite(p_low) & (np.abs(p) < 800.0), p_low, 0.0))
    whole = np.floor(y) == y
    odd = whole & (np.floor(y * 0.5) * 2.0 != y) & (np.abs(y) < 9007199254740992.0)
    negative = np.signbit(x)
    result = np.where(negative & odd, -result, result)
    result = np.where((x < 0) & (a < np.inf) & ~whole, np.nan, result)
    result = np.where((x == -1) & np.isinf(y), 1.0, result)
    return np.where((y == 0) | (x == 1), 1.0, result)


def _sin_cos(x: Array) -> tuple[Array, Array, Array]:
    """Sine and cosine of the reduced angle, and the quadrant."""
    quadrant, r, low = reduce_angle(x)
    z = r * r
    sine = r + (r * z * polynomial(z, _SIN[1:]) + low)
    cosine = 1.0 - (0.5 * z - (z * z * polynomial(z, _COS[2:]) - r * low))
    return sine, cosine, quadrant


def sin(x: Array) -> Array:
    s, c, q = _sin_cos(x)
    y = np.where(q & 1, c, s)
    return np.where(np.isfinite(x), np.where(x == 0, x, np.where(q & 2, -y, y)), np.nan)


def cos(x: Array) -> Array:
    s, c, q = _sin_cos(x)
    y = np.where(q & 1, s, c)
    return np.where(np.isfinite(x), np.where((q + 1) & 2, -y, y), np.nan)


def tan(x: Array) -> Array:
    s, c, q = _sin_cos(x)
    y = np.where(q & 1, -c, s) / np.where(q & 1, s, c)
    return np.where(np.isfinite(x), np.where(x == 0, x, y), np.nan)


def atan(x: Array) -> Array:
    a = np.abs(x)
    big = a > 1.0
    t = np.where(big, 1.0 / np.where(big, a, 1.0), a)
    middle = (t >= 0.198912367379658) & (t < 0.6681786379192989)
    upper = t >= 0.6681786379192989
    centre = np.where(upper, 1.0, np.where(middle, 0.41421356237309503, 0.0))
    base = np.where(upper, 0.7853981633974483, np.where(middle, 0.39269908169872414, 0.0))
    r = (t - centre) / (1.0 + t * centre)
    z = r * r
    y = base + (r + r * z * polynomial(z, _ATAN[1:]))
    y = np.where(big, PI_HALF - (y - PI_HALF_LOW), y)
    return np.where(x != x, x, np.copysign(y, x))


def asin(x: Array) -> Array:
    root = np.sqrt((1.0 - x) * (1.0 + x))
    edge = np.where(root == 0, np.copysign(PI_HALF, x), x)
    return np.where((root == 0) | (np.abs(x) < 1e-8), edge, atan(x / np.where(root == 0, 1.0, root)))


def acos(x: Array) -> Array:
    inside = np.abs(x) <= 1
    ratio = np.sqrt((1.0 - x) / np.where(x == -1, 1.0, 1.0 + x))
    return np.where(inside, np.where(x == -1, 2 * PI_HALF, 2.0 * atan(ratio)), np.nan)


def _sinh_small(x: Array) -> Array:
    z = x * x
    return np.asarray(x + x * z * polynomial(z, _SINH[1:]))


def sinh(x: Array) -> Array:
    a = np.abs(x)
    small = a < 0.5
    half = exp(0.5 * a)
    large = (0.5 * half) * half - 0.5 / (half * half)
    return np.where(small, _sinh_small(np.where(small, x, 0.0)), np.copysign(large, x))


def cosh(x: Array) -> Array:
    half: Array = exp(0.5 * np.abs(x))
    return np.asarray((0.5 * half) * half + 0.5 / (half * half))


def tanh(x: Array) -> Array:
    a = np.abs(x)
    small = a < 0.5
    s = _sinh_small(np.where(small, x, 0.0))
    large = np.copysign(1.0 - 2.0 / (exp(2.0 * a) + 1.0), x)
    return np.where(small, s / np.sqrt(1.0 + s * s), large)


def asinh(x: Array) -> Array:
    a = np.abs(x)
    huge = a > 1e150
    b = np.where(huge, 1.0, a)
    z = b * b
    y = _log1p(b + z / (1.0 + np.sqrt(1.0 + z)))
    return np.where(x != x, x, np.copysign(np.where(huge, log(a) + 0.6931471805599453, y), x))


def acosh(x: Array) -> Array:
    huge = x > 1e150
    t = np.where(huge | ~(x >= 1), 0.0, x - 1.0)
    y = _log1p(t + np.sqrt(2.0 * t + t * t))
    return np.where(huge, log(x) + 0.6931471805599453, np.where(x >= 1, y, np.nan))


def atanh(x: Array) -> Array:
    a = np.abs(x)
    inside = a < 1
    b = np.where(inside, a, 0.0)
    y = np.where(inside, 0.5 * _log1p(2.0 * b / (1.0 - b)), np.where(a == 1, np.inf, np.nan))
    return np.copysign(y, x)


def erf(x: Array) -> Array:
    a = np.abs(x)
    small = a < 1.0
    z = np.where(small, x, 0.0)
    z = z * z
    b = np.minimum(np.where(a != a, 0.0, a), 27.0)
    t = (b - 3.75) / (b + 3.75)
    tail = exp(-(b * b)) * (polynomial(t, _ERFCX) / (1.0 + 2.0 * b))
    y = np.where(small, x * polynomial(z, _ERF), np.copysign(1.0 - tail, x))
    return np.where(x != x, x, y)


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + exp(-x)))


def rsqrt(x: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(x))
