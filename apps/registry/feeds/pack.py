"""Convert arrays to and from .npz, .npy and JSON. Sizes are checked before large data are read."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

import numpy as np

from apps.registry.feeds.check import BYTES_MAX, Array, InputError, TensorType, is_float, widened

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK"
MEMBERS_MAX = 256
UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
)


@dataclass(frozen=True)
class Limits:
    """The maximum size of the file and of its unpacked arrays, in bytes."""

    file_bytes: int = 64 * 1024 * 1024
    array_bytes: int = BYTES_MAX


def arrays_read(file: BinaryIO, types: Sequence[TensorType], limits: Limits) -> dict[str, Array]:
    """Return the arrays of a .npz file. A .npy file is also accepted if the program has one input. Raises InputError if
    the file is invalid.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if size > limits.file_bytes:
        raise InputError(
            [f"The file is {size:,} bytes; at most {limits.file_bytes:,} are accepted. Send several jobs."]
        )
    head = file.read(len(NPY_MAGIC))
    file.seek(0)
    if not head:
        raise InputError(["The file is empty; send a .npz file with one array for each input."])
    if head == NPY_MAGIC and len(types) == 1:
        return {types[0].name: _array_of(file, types[0].name, limits.array_bytes)}
    if head == NPY_MAGIC:
        names = ", ".join(f"'{one.name}'" for one in types)
        raise InputError([f"A .npy file holds one array, but the program needs {names}; send them in a .npz file."])
    if not head.startswith(ZIP_MAGIC):
        raise InputError(["This is not a .npz file: save the inputs with numpy.savez(path, name=array), or send JSON."])
    return _members(file, limits)


def _members(file: BinaryIO, limits: Limits) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            unpacked = sum(member.file_size for member in members)
            if len(members) > MEMBERS_MAX or unpacked > limits.array_bytes:
                most = f"{limits.array_bytes:,} bytes and {MEMBERS_MAX} arrays"
                raise InputError(
                    [f"The file unpacks to {unpacked:,} bytes (arrays: {len(members)}); at most {most} are accepted."]
                )
            for member in members:
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as stream:  # gives no more bytes than the directory says
                    arrays[name] = _array_of(stream, name, limits.array_bytes)
    except UNREADABLE as error:
        raise InputError([f"The .npz file is damaged ({error}); save it again with numpy.savez."]) from error
    return arrays


def _array_of(file: IO[bytes], name: str, bytes_max: int) -> Array:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        claimed = int(np.prod([int(size) for size in shape], dtype=object)) * dtype.itemsize
        if dtype.hasobject or claimed > bytes_max:
            raise InputError(
                [
                    f"Array '{name}' holds {dtype} of shape {list(shape)}; only plain numbers of a suitable type are accepted."
                ]
            )
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except UNREADABLE as error:
        raise InputError([f"Array '{name}' cannot be read ({error}); save it again with numpy.savez."]) from error
    return array


def arrays_read_json(document: object, types: Sequence[TensorType]) -> dict[str, Array]:
    """Return the arrays of a JSON document that maps input names to nested lists. Raises InputError if the document is
    invalid.
    """
    if not isinstance(document, Mapping):
        raise InputError(
            ['Send an object such as {"input name": [[1.0, 2.0], [3.0, 4.0]]}; the outer list holds the items.']
        )
    dtypes = {one.name: np.dtype(one.dtype) for one in types}
    arrays: dict[str, Array] = {}
    problems: list[str] = []
    for name, nested in document.items():
        try:
            arrays[str(name)] = _array_of_lists(nested, dtypes.get(str(name), np.dtype("float32")))
        except (ValueError, TypeError, OverflowError, RecursionError):
            problems.append(
                f"Input '{name}' must be nested lists of numbers; lists at the same level must have the same length."
            )
            continue
        if not np.isfinite(arrays[str(name)]).all():
            problems.append(
                f"Input '{name}' holds NaN or an infinite number, which JSON cannot represent. Send a .npz file."
            )
    if problems:
        raise InputError(problems)
    return arrays


def _array_of_lists(nested: object, wanted: np.dtype[Any]) -> Array:
    array = np.array(nested)
    if array.dtype.kind not in "biuf":
        raise TypeError("not numbers")
    if is_float(wanted) and array.dtype.kind in "iu":
        return array.astype(wanted)
    return array


def arrays_pack(arrays: Mapping[str, Array]) -> bytes:
    """Return the arrays as .npz bytes; equal arrays give equal bytes. Small types are widened."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            with archive.open(member_of(name), "w") as part:
                np.lib.format.write_array(part, widened(np.asanyarray(arrays[name])), allow_pickle=False)
    return buffer.getvalue()


def member_of(name: str) -> zipfile.ZipInfo:
    """Return the archive entry of an array, with a fixed time stamp."""
    return zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))


def arrays_unpack(data: bytes) -> dict[str, Array]:
    """Read the arrays from trusted .npz bytes made by `arrays_pack`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def document_read(body: bytes) -> object:
    """Parse the JSON document in `body`. Raises InputError if the body is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError([f"The body is not JSON ({error})."]) from error
