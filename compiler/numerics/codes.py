"""Floats as whole numbers with a scale and a zero point: one meaning for the compiler, the host's driver and the programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.numerics.exact import Array
from compiler.numerics.scalar import nearest


def inverse(scale: float) -> float:
    """What a value is multiplied with before it is rounded, as a float32."""
    return float(np.float32(1.0) / np.float32(scale))


def encode(array: Array, dtype: np.dtype[Any], scale: float, zero: int) -> Array:
    """``saturate(round(array / scale) + zero)`` in float32 steps, half to even; a float ``dtype`` is a conversion."""
    with np.errstate(all="ignore"):
        if "float" in dtype.name:
            return np.asarray(array, dtype)
        scaled = np.asarray(array, np.float32) * np.float32(inverse(scale))
        return nearest(scaled + np.float32(zero) if zero else scaled, dtype)
