"""Element types that the processor computes on, named as in the representation's text form."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

# The order is the encoding: the position is the type's number in a binary. New types are appended.
_NUMPY: Final = {
    "f64": "<f8",
    "f32": "<f4",
    "f16": "<f2",
    "i64": "<i8",
    "i32": "<i4",
    "i16": "<i2",
    "i8": "<i1",
    "u64": "<u8",
    "u32": "<u4",
    "u16": "<u2",
    "u8": "<u1",
    "bool": "?",
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "i4": ml_dtypes.int4,  # a byte each in memory, the number in its low half
    "u4": ml_dtypes.uint4,
}

ELEMENTS: Final = tuple(_NUMPY)
NUMBER: Final = {name: number for number, name in enumerate(ELEMENTS)}
NUMPY: Final[dict[str, np.dtype[Any]]] = {name: np.dtype(code) for name, code in _NUMPY.items()}
SIZE: Final[dict[str, int]] = {name: dtype.itemsize for name, dtype in NUMPY.items()}
NAME: Final[dict[np.dtype[Any], str]] = {dtype: name for name, dtype in NUMPY.items()}
# Types that planes may multiply, and those in which they sum the products.
SUMS: Final = dict.fromkeys(("i8", "u8", "i4", "u4"), "i32") | dict.fromkeys(
    ("f16", "f32", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"), "f32"
)
