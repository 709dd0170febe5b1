"""Element types that the processor computes on, named as in the representation's text form."""

from __future__ import annotations

from typing import Any, Final

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
}

ELEMENTS: Final = tuple(_NUMPY)
NUMBER: Final = {name: number for number, name in enumerate(ELEMENTS)}
NUMPY: Final[dict[str, np.dtype[Any]]] = {name: np.dtype(code) for name, code in _NUMPY.items()}
SIZE: Final[dict[str, int]] = {name: dtype.itemsize for name, dtype in NUMPY.items()}
NAME: Final[dict[np.dtype[Any], str]] = {dtype: name for name, dtype in NUMPY.items()}
FLOATS: Final = frozenset({"f64", "f32", "f16"})
