"""Files that commands read and write beside models: arrays in, arrays and programs out."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import ModelError

Array = np.ndarray[Any, Any]


def read_arrays(path: str) -> dict[str, Array]:
    """The arrays of an .npz file by name. ``ModelError`` for another file, ``OSError`` for one that cannot be read."""
    try:
        with Path(path).open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                raise ModelError(
                    f"{path} holds one array without a name; write inputs with numpy.savez, each by its name"
                )
            return {name: stored[name] for name in stored.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path} is no .npz file of arrays; write it with numpy.savez") from error


def write_arrays(path: str, arrays: dict[str, Array]) -> None:
    """An .npz file of that very name."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write(path, buffer.getvalue())


def write(path: str, data: bytes) -> None:
    """All of ``data`` or no file: what a full disk leaves of a new one is removed."""
    place = Path(path)
    new = not place.exists()
    try:
        place.write_bytes(data)
    except OSError:
        if new:
            with suppress(OSError):
                place.unlink(missing_ok=True)
        raise
