"""Example inputs for calibrating a narrow precision: a .npz file with the items stacked along the first axis.

Only the resource-limited child process reads the file.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.figures import shape_format
from apps.registry.feeds.check import is_float

FILE_BYTES_MAX = 64 * 2**20
ARRAY_BYTES_MAX = 512 * 2**20
ITEMS_MAX = 256
MEMBERS_MAX = 64
UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
    zipfile.BadZipFile,
)

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Wanted:
    """An input that the compiled model expects: its NumPy element type and the shape of one item."""

    dtype: str
    shape: tuple[int, ...]


class CalibrationError(Exception):
    """Raised if the examples can't be used. The message says what to change."""


class OtherShape(CalibrationError):
    """Raised if the examples are valid but do not have the program's sizes."""


def feeds_read(data: bytes, wanted: Mapping[str, Wanted]) -> list[dict[str, Array]]:
    """Return one feed for each item.

    Raises OtherShape if only the sizes are wrong, and CalibrationError for any other fault.
    """
    arrays = _arrays(data)
    for name in wanted:
        if name not in arrays:
            raise CalibrationError(
                f"The calibration file has no array {name!r}; it must have one array for each input of the model."
            )
    unknown = sorted(set(arrays) - set(wanted))
    if unknown:
        raise CalibrationError(f"The model has no input {unknown[0]!r}; leave that array out of the calibration file.")
    shaped = {name: _typed(name, _items(name, arrays[name], one), one) for name, one in wanted.items()}
    counts = sorted({len(array) for array in shaped.values()})
    if len(counts) > 1:
        raise CalibrationError(
            f"Every array needs the same number of items; the arrays have {counts[0]} to {counts[-1]}."
        )
    if not counts or not 1 <= counts[0] <= ITEMS_MAX:
        raise CalibrationError(f"A calibration file must hold 1 to {ITEMS_MAX} items along the first axis.")
    return [{name: array[item] for name, array in shaped.items()} for item in range(counts[0])]


def _arrays(data: bytes) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS_MAX or sum(member.file_size for member in members) > ARRAY_BYTES_MAX:
                limit = f"{ARRAY_BYTES_MAX // 2**20} MiB"
                raise CalibrationError(f"The calibration file unpacks to more than {limit}; send fewer items.")
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except UNREADABLE:
        text = "The calibration file is not a .npz file of plain arrays; write it with numpy.savez(path, name=array)."
        raise CalibrationError(text) from None


def _items(name: str, array: Array, wanted: Wanted) -> Array:
    if array.ndim == len(wanted.shape) + 1 and array.shape[1:] == wanted.shape:
        return array
    if wanted.shape[:1] == (1,) and array.ndim == len(wanted.shape) and array.shape[1:] == wanted.shape[1:]:
        return array[:, np.newaxis]
    needed = shape_format(["items", *wanted.shape])
    raise OtherShape(
        f"Array {name!r} of the calibration file must have the shape {needed}; its shape is {shape_format(array.shape)}."
    )


def _typed(name: str, array: Array, wanted: Wanted) -> Array:
    kind = np.dtype(wanted.dtype)
    if array.dtype == kind:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not is_float(kind)):
        raise CalibrationError(
            f"Array {name!r} of the calibration file must have the type {kind}; its type is {array.dtype}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        made = array.astype(kind)
    if not is_float(kind) and not np.array_equal(made, array):
        raise CalibrationError(f"Array {name!r} of the calibration file holds values that {kind} cannot represent.")
    if is_float(kind) and not np.all(np.isfinite(made)):
        raise CalibrationError(
            f"Array {name!r} of the calibration file holds values that are NaN, infinite or too large for {kind}."
        )
    return np.ascontiguousarray(made)
