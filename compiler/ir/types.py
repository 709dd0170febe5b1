"""Element types and tensor types of the representation."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


class DType(enum.Enum):
    """An element type; the value is its name in the text form and in binaries."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    U64 = "u64"
    U32 = "u32"
    U16 = "u16"
    U8 = "u8"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(_NUMPY[self])

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return int(self.numpy.itemsize)

    @property
    def is_float(self) -> bool:
        return self in (DType.F64, DType.F32, DType.F16)

    @staticmethod
    def of(dtype: np.dtype[Any] | type) -> DType:
        """The element type of a NumPy dtype; ``KeyError`` for types that the representation does not have."""
        return _FROM_NUMPY[np.dtype(dtype)]


_NUMPY = {
    DType.F64: "float64",
    DType.F32: "float32",
    DType.F16: "float16",
    DType.I64: "int64",
    DType.I32: "int32",
    DType.I16: "int16",
    DType.I8: "int8",
    DType.U64: "uint64",
    DType.U32: "uint32",
    DType.U16: "uint16",
    DType.U8: "uint8",
    DType.BOOL: "bool",
}
_FROM_NUMPY = {np.dtype(name): dtype for dtype, name in _NUMPY.items()}


@dataclass(frozen=True)
class TensorType:
    """Element type and static shape of a tensor."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.size

    def __str__(self) -> str:
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]"
