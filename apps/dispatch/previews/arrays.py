"""Random access to the arrays of an uncompressed .npz file."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

PIECE_BYTES = 1 << 20
ROW_BYTES_MAX = 4 << 20
_LOCAL_HEADER = 30  # bytes before the name of a member of a ZIP file; its lengths stand in the last four


@dataclass(frozen=True)
class StoredArray:
    """An array in a file: its element type, its shape (rows first), and the byte offset of its values."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    @property
    def rows(self) -> int:
        """The length of the first axis; 0 if the array is a single number."""
        return self.shape[0] if self.shape else 0

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape[1:]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))


class NpzFile:
    """An open .npz file with its arrays by name. Raises ValueError if an array is compressed or not in C order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        with zipfile.ZipFile(file) as archive:
            self.arrays = {one.name: one for one in (self._stored(archive, info) for info in archive.infolist())}

    def _stored(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> StoredArray:
        with archive.open(info) as part:
            version = np.lib.format.read_magic(part)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(part)
            header = part.tell()
        if info.compress_type != zipfile.ZIP_STORED or is_fortran or dtype.hasobject:
            raise ValueError(f"{info.filename} is not stored as plain values.")
        self._file.seek(info.header_offset + _LOCAL_HEADER - 4)
        name, extra = struct.unpack("<HH", self._file.read(4))
        start = info.header_offset + _LOCAL_HEADER + name + extra + header
        return StoredArray(info.filename.removesuffix(".npy"), dtype, tuple(map(int, shape)), start)

    def row(self, array: StoredArray, index: int) -> Array | None:
        """Return one row; None if the row has more than ROW_BYTES_MAX bytes. Raises IndexError if there is no such row."""
        if not 0 <= index < array.rows:
            raise IndexError(index)
        if array.row_bytes > ROW_BYTES_MAX:
            return None
        if not array.row_bytes:
            return np.zeros(array.row_shape, array.dtype)
        self._file.seek(array.start + index * array.row_bytes)
        values: Array = np.frombuffer(self._file.read(array.row_bytes), array.dtype)
        return values.reshape(array.row_shape)

    def pieces(self, array: StoredArray, most: int) -> Iterator[Array]:
        """Yield an array's values, flattened, in pieces of at most PIECE_BYTES. Stops after `most` bytes."""
        each = array.dtype.itemsize
        left = min(most, each * int(np.prod(array.shape, dtype=np.int64))) // each * each if each else 0
        self._file.seek(array.start)
        while left:
            data = self._file.read(min(left, max(each, PIECE_BYTES // each * each)))
            if not data:
                return
            left -= len(data)
            yield np.frombuffer(data, array.dtype)

    def position(self, array: StoredArray, value: int) -> int | None:
        """Return the index of an integer in an ascending one-dimensional array; None if the array does not contain the
        integer.
        """
        low, high = 0, array.rows
        while low < high:
            middle = (low + high) // 2
            found = self.row(array, middle)
            assert found is not None, "a row of one number is small"
            if int(found) < value:
                low = middle + 1
            else:
                high = middle
        return low if low < array.rows and int(self.row(array, low) or 0) == value else None
