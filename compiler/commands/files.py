"""Files that commands read and write beside models: arrays in, arrays and programs out."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.commands.guard import WrongOption
from compiler.errors import ModelError

Array = np.ndarray[Any, Any]

INPUTS = "an .npz file with one array for each input"
REASONS: Final[dict[type[Exception], str]] = {
    FileNotFoundError: "there is no such file",
    IsADirectoryError: "it is a folder, not a file",
    PermissionError: "it may not be read",
    NotADirectoryError: "a part of its path is a file, not a folder",
}
UNWRITABLE: Final[dict[type[Exception], str]] = REASONS | {
    FileNotFoundError: "the folder in which it is to stand does not exist",
    PermissionError: "it may not be written",
}


PIPE = "-"


def read(path: str | os.PathLike[str], option: str, what: str) -> bytes:
    """What a file holds, or for "-" standard input. ``ModelError`` names the ``option`` (empty for an argument without one)
    that takes ``what``."""
    if str(path) == PIPE:
        return _piped(what)
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        raise ModelError(unreadable(path, error, option, what)) from None


def _piped(what: str) -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise WrongOption(f"-: nothing is piped into standard input; give {what}")
    if not (data := sys.stdin.buffer.read()):
        raise ModelError(f"-: standard input is empty, or was read already; give {what}")
    return data


def source(path: str | os.PathLike[str], data: bytes | None = None) -> Any:
    """What ``compiler.load`` reads: the path, for files beside it, or what standard input holds (``data``, if it was read)."""
    if str(path) != PIPE:
        return path
    data = _piped("a model") if data is None else data
    return data.decode(errors="replace") if data[:4096].lstrip().startswith((b"graph", b"#")) else data


def unreadable(path: str | os.PathLike[str], error: OSError | ValueError, option: str, what: str) -> str:
    """Why a file cannot be read, and what belongs there."""
    if not str(path):
        return f"{option} names no file; it takes {what}" if option else f"no file is named; give {what}"
    reason = REASONS.get(type(error)) or getattr(error, "strerror", None) or str(error)
    return f"{option} {path}: {reason}; it takes {what}" if option else f"{path}: {reason}; give {what}"


def read_text(path: str | os.PathLike[str], option: str, what: str) -> str:
    """The same of a file of text."""
    try:
        return read(path, option, what).decode("utf-8-sig")  # as some editors begin a file
    except UnicodeDecodeError:
        raise ModelError(f"{option} {path}: it is not UTF-8 text; it takes {what}") from None


def read_arrays(path: str, option: str = "--inputs", what: str = INPUTS) -> dict[str, Array]:
    """The arrays of an .npz file by name. ``ModelError`` for another file and for one that cannot be read."""
    data = read(path, option, what)
    try:
        with io.BytesIO(data) as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                raise ModelError(
                    f"{option} {path}: it holds one array without a name; write inputs with numpy.savez, each by its name"
                )
            return {name: stored[name] for name in stored.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{option} {path}: it is no .npz file of arrays; write it with numpy.savez") from error


def read_array(path: str, option: str) -> Array:
    """The array of an .npy file."""
    data = read(path, option, "an .npy file")
    try:
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ModelError(f"{option} {path}: it is no .npy file; write it with numpy.save") from error


def write_arrays(path: str, arrays: dict[str, Array], option: str) -> None:
    """An .npz file of that very name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # numpy.savez takes no array of the name "file"
        for name, array in arrays.items():
            stored = io.BytesIO()
            np.save(stored, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), stored.getvalue())
    write(path, buffer.getvalue(), option)


def keep(path: str, option: str, *read: str | None) -> None:
    """``WrongOption`` when a file that is to be written is one of those that are read: it would be lost."""
    for other in read:
        with suppress(OSError, ValueError):
            if other is not None and Path(path).samefile(other):
                raise WrongOption(f"{option} {path}: that is the file that is read, and would be lost; name another")


def make_folder(path: Path, option: str) -> None:
    """The folder and those above it, where they are not there yet. ``ModelError`` names the option."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ModelError(f"{option} {path}: it is a file, not a folder") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{option} {path}: {_unwritable(error)}") from None


def _unwritable(error: OSError | ValueError) -> str:  # a path with a null character is a ValueError
    return UNWRITABLE.get(type(error)) or getattr(error, "strerror", None) or str(error)


def write(path: str | os.PathLike[str], data: bytes, option: str) -> None:
    """All of ``data`` or no file: what a full disk leaves of a new one is removed. ``ModelError`` names the option.
    "-" is standard output."""
    if not str(path):
        raise WrongOption(f"{option} names no file")
    if str(path) == PIPE:
        sys.stdout.buffer.write(data)
        return
    place, new = Path(path), False
    try:
        new = not place.exists()
        place.write_bytes(data)
    except (OSError, ValueError) as error:
        if new:
            with suppress(OSError, ValueError):
                place.unlink(missing_ok=True)
        raise ModelError(f"{option} {path}: {_unwritable(error)}") from None
