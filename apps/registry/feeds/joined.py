"""Join the outputs of blocks into one .npz file on disk. Only one block is in memory at a time."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, BinaryIO, Self

import numpy as np

from apps.registry.feeds.check import Array
from apps.registry.feeds.pack import member_of


class Joined:
    """Arrays of `rows` items each, appended block by block."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._stack = ExitStack()
        self._files: dict[str, IO[bytes]] = {}
        self._kinds: dict[str, tuple[np.dtype[np.generic], tuple[int, ...], int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def append(self, block: Mapping[str, Array]) -> None:
        """Append a block, which holds the next items of every array."""
        for name, array in block.items():
            if name not in self._files:
                self._begin(name, array, self.rows)
            self._write(name, array)

    def overwrite(self, rows: Array, block: Mapping[str, Array]) -> dict[str, Array]:
        """Overwrite these rows in the stored arrays. Return the arrays in `block` that match no stored array by name
        and item shape.
        """
        others: dict[str, Array] = {}
        for name, array in block.items():
            dtype, shape, start = self._kinds.get(name, (array.dtype, (-1,), 0))
            if shape != array.shape[1:]:
                others[name] = array
                continue
            each = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            for row, values in zip(rows, array, strict=True):
                self._files[name].seek(start + int(row) * each)
                self._files[name].write(np.ascontiguousarray(values, dtype).tobytes())
        return others

    def add(self, name: str, array: Array, *, rows: int | None = None) -> None:
        """Append to the array `name`, creating the array if necessary. `rows` is the number of rows that a new array
        will have.
        """
        if name not in self._files:
            self._begin(name, array, len(array) if rows is None else rows)
        self._write(name, array)

    def pack(self, to: BinaryIO) -> None:
        """Write the .npz file. The bytes equal those that `arrays_pack` returns for the same arrays."""
        with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(self._files):
                self._files[name].seek(0)
                with archive.open(member_of(name), "w", force_zip64=False) as part:
                    shutil.copyfileobj(self._files[name], part, 1 << 20)

    def _begin(self, name: str, array: Array, rows: int) -> None:
        file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        header = {
            "descr": np.lib.format.dtype_to_descr(array.dtype),
            "fortran_order": False,
            "shape": (rows, *array.shape[1:]),
        }
        np.lib.format.write_array_header_1_0(file, header)
        self._files[name], self._kinds[name] = file, (array.dtype, array.shape[1:], file.tell())

    def _write(self, name: str, array: Array) -> None:
        dtype = self._kinds[name][0]
        self._files[name].seek(0, 2)
        self._files[name].write(np.ascontiguousarray(array, dtype).data)
