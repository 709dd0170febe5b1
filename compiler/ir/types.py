"""Element types and tensor types of the representation."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
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
    BF16 = "bf16"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    I4 = "i4"
    U4 = "u4"

    @property
    def numpy(self) -> np.dtype[Any]:
        return _NUMPY_OF[self]

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return int(self.numpy.itemsize)

    @property
    def is_float(self) -> bool:
        return self.value.startswith(("f", "bf"))

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest number of a whole type."""
        info = ml_dtypes.iinfo(self.numpy)
        return int(info.min), int(info.max)

    @property
    def largest(self) -> float:
        """The largest finite number of a float type."""
        return float(ml_dtypes.finfo(self.numpy).max)

    @property
    def computed(self) -> DType:
        """The type in which elements of this one are computed: types that are only stored widen, exactly."""
        return _COMPUTED.get(self, self)

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
    DType.BF16: ml_dtypes.bfloat16,
    DType.F8E4M3FN: ml_dtypes.float8_e4m3fn,
    DType.F8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    DType.F8E5M2: ml_dtypes.float8_e5m2,
    DType.F8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    DType.I4: ml_dtypes.int4,
    DType.U4: ml_dtypes.uint4,
}
_NUMPY_OF: dict[DType, np.dtype[Any]] = {dtype: np.dtype(kind) for dtype, kind in _NUMPY.items()}
_COMPUTED = {DType.BF16: DType.F32, DType.I4: DType.I8, DType.U4: DType.U8} | {
    DType(name): DType.F32 for name in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz")
}
_FROM_NUMPY = {kind: dtype for dtype, kind in _NUMPY_OF.items()}


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
