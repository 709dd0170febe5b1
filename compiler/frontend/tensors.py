"""Decoding stored tensors without trusting what they claim."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from compiler.errors import ModelError
from compiler.frontend.external import is_external, mapped
from compiler.frontend.limits import DEFAULT, Limits
from compiler.ir import DType

Array = np.ndarray[Any, Any]

ELEMENT_TYPES: dict[int, DType] = {
    TensorProto.FLOAT: DType.F32,
    TensorProto.DOUBLE: DType.F64,
    TensorProto.FLOAT16: DType.F16,
    TensorProto.INT64: DType.I64,
    TensorProto.INT32: DType.I32,
    TensorProto.INT16: DType.I16,
    TensorProto.INT8: DType.I8,
    TensorProto.UINT64: DType.U64,
    TensorProto.UINT32: DType.U32,
    TensorProto.UINT16: DType.U16,
    TensorProto.UINT8: DType.U8,
    TensorProto.BOOL: DType.BOOL,
    TensorProto.BFLOAT16: DType.BF16,
    TensorProto.FLOAT8E4M3FN: DType.F8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ: DType.F8E4M3FNUZ,
    TensorProto.FLOAT8E5M2: DType.F8E5M2,
    TensorProto.FLOAT8E5M2FNUZ: DType.F8E5M2FNUZ,
    TensorProto.INT4: DType.I4,
    TensorProto.UINT4: DType.U4,
}
HALVES = (DType.I4, DType.U4)  # stored two to a byte


def element_type(code: int, what: str) -> DType:
    """The element type of an ONNX type code; ``ModelError`` names what may stand there instead."""
    if code in ELEMENT_TYPES:
        return ELEMENT_TYPES[code]
    try:
        name = TensorProto.DataType.Name(code)
    except ValueError:
        name = f"type {code}"
    raise ModelError(
        f"{what} holds elements of {name}, which is not supported. Convert it to float32 or an integer type."
    )


def tensor_array(tensor: TensorProto, limits: Limits = DEFAULT, folder: Path | None = None) -> Array:
    """The tensor's contents, exactly as many as its dimensions say. ``folder``: where the model's side files are."""
    what = f"The tensor {tensor.name[:80]!r}" if tensor.name else "A tensor"
    dtype = element_type(tensor.data_type, what)
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape) or prod(shape) * dtype.size > limits.tensor_bytes:
        raise ModelError(f"{what} claims the shape {list(shape)[:8]}; the limit is {limits.tensor_bytes} bytes.")
    if is_external(tensor):
        size = -(-prod(shape) // 2) if dtype in HALVES else prod(shape) * dtype.size
        array = _elements(mapped(tensor, folder, size, what), dtype, what)
    else:
        array = _contents(tensor, dtype, what)
    if dtype in HALVES and array.size == prod(shape) + prod(shape) % 2:
        array = array[: prod(shape)]  # the last byte holds one number
    if array.size != prod(shape):
        raise ModelError(
            f"{what} holds {array.size} elements, but its shape {list(shape)} needs {prod(shape)}. Is the file cut?"
        )
    return array.reshape(shape)


def _elements(raw: Array, dtype: DType, what: str) -> Array:
    """Bytes as elements, without a copy where they lie as NumPy reads them."""
    if dtype in HALVES:
        return _halves(raw, dtype)
    if raw.size % dtype.size:
        raise ModelError(f"{what} holds {raw.size} bytes, not whole elements. Is the file cut?")
    return np.require(raw.view(dtype.numpy), requirements="A")


def _contents(tensor: TensorProto, dtype: DType, what: str) -> Array:
    if tensor.HasField("raw_data"):
        return _elements(np.frombuffer(tensor.raw_data, np.uint8), dtype, what)
    if dtype == DType.F32:
        return np.array(tensor.float_data, np.float32)
    if dtype == DType.F64:
        return np.array(tensor.double_data, np.float64)
    if dtype == DType.I64:
        return np.array(tensor.int64_data, np.int64)
    if dtype in (DType.U64, DType.U32):
        return np.array(tensor.uint64_data, np.uint64).astype(dtype.numpy)
    words = np.array(tensor.int32_data, np.int32)
    if dtype in HALVES:
        return _halves(words.astype(np.uint8), dtype)
    if dtype.is_float:
        return words.astype(f"u{dtype.size}").view(dtype.numpy)
    return words.astype(dtype.numpy)


def _halves(packed: Array, dtype: DType) -> Array:
    """Numbers of 4 bits from bytes that hold two each, the first one in the low half."""
    return np.stack((packed, packed >> 4), axis=-1).reshape(-1).astype(np.int8).astype(dtype.numpy)
