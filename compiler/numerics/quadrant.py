"""Angles modulo a quarter turn, exactly enough for any float64 (Cody and Waite for small, Payne and Hanek for large ones)."""

from __future__ import annotations

from functools import cache

import numpy as np

from compiler.numerics.exact import Array, two_product, two_sum

# pi / 2 in three parts of 31 bits and a rest: a whole number below 2**22 times a part is exact.
_PARTS = (1.5707963267341256, 6.07710050359346e-11, 2.9127320548227e-20, 1.2706558760139879e-29)
_TWO_OVER_PI = 0.6366197723675814
_PI_HALF, _PI_HALF_LOW = 1.5707963267948966, 6.123233995736766e-17
_LIMIT = 2097152.0
_PIECES, _PIECE_BITS = 6, 24


def reduce_angle(x: Array) -> tuple[Array, Array, Array]:
    """``x`` as quadrant (0..3, int64) and remainder in about [-pi/4, pi/4] in two parts; not finite counts as zero."""
    near = np.abs(x) < _LIMIT
    a = np.where(near, x, 0.0)
    n = np.rint(a * _TWO_OVER_PI)
    high, low = two_sum(a - n * _PARTS[0], -(n * _PARTS[1]))
    high, low = two_sum(high, low - (n * _PARTS[2] + n * _PARTS[3]))
    quadrant = n.astype(np.int64) & 3
    far = ~near & np.isfinite(x)
    if far.any():
        quadrant[far], high[far], low[far] = _reduce_large(x[far])
    return quadrant, high, low


def _reduce_large(x: Array) -> tuple[Array, Array, Array]:
    bits = np.ascontiguousarray(x).view(np.int64)
    exponent = ((bits >> 52) & 0x7FF) - 1075
    mantissa = (bits & 0x000FFFFFFFFFFFFF) | 0x0010000000000000
    pieces = _two_over_pi_modulo_four()[exponent + 52]
    turn = np.zeros_like(x)
    rest = np.zeros_like(x)
    for part in range(_PIECES):
        piece = pieces[:, part]
        for half in ((mantissa >> 27).astype(np.float64) * 134217728.0, (mantissa & 0x7FFFFFF).astype(np.float64)):
            turn, error = two_sum(turn, _modulo_four(half * piece))  # the product is exact: 27 + 24 bits
            rest = rest + error
    turn, rest = two_sum(turn, rest)
    n = np.rint(turn)
    fraction, rest = two_sum(turn - n, rest)
    negative = x < 0
    quadrant = np.where(negative, -n, n).astype(np.int64) & 3
    high, low = _times_pi_half(fraction, rest)
    return quadrant, np.where(negative, -high, high), np.where(negative, -low, low)


def _modulo_four(x: Array) -> Array:
    return np.asarray(x - 4.0 * np.floor(x * 0.25))


def _times_pi_half(high: Array, low: Array) -> tuple[Array, Array]:
    p, p_low = two_product(high, np.full_like(high, _PI_HALF))
    return two_sum(p, p_low + (high * _PI_HALF_LOW + low * _PI_HALF))


@cache
def _two_over_pi_modulo_four() -> Array:
    """Row ``e + 52``: ``2**e * 2/pi`` modulo 4 in pieces of 24 bits, for exponents e in [-52, 971]."""
    bits = 1400
    one = 1 << bits
    scaled = (one << (bits + 1)) // _pi(bits + 64, bits)
    rows = []
    for e in range(-52, 972):
        value = (scaled << e if e >= 0 else scaled >> -e) % (4 * one)
        row = []
        for part in range(_PIECES):
            shift = bits + 2 - _PIECE_BITS * (part + 1)
            piece = value >> shift
            value -= piece << shift
            row.append(float(piece) * 2.0 ** (2 - _PIECE_BITS * (part + 1)))
        rows.append(row)
    return np.array(rows)


def _pi(working: int, bits: int) -> int:
    """pi * 2**bits by Machin's formula in integers."""

    def arctan_inverse(k: int) -> int:
        term = total = (1 << working) // k
        n, sign = 1, 1
        while term:
            term //= k * k
            n, sign = n + 2, -sign
            total += sign * (term // n)
        return total

    return (4 * (4 * arctan_inverse(5) - arctan_inverse(239))) >> (working - bits)
