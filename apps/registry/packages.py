"""A model with its side files in one archive (.zip or .tar): how they are uploaded, stored and read together."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

ENTRIES_MAX = 200
HEAD_BYTES = 512
PIECE_BYTES = 2**20
UNPACKED = "unpacked"

# What reading a damaged archive can end in: the file system's own faults only where names exclude each other.
_WRONG_BYTES = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OverflowError, ValueError)
DAMAGED = (*_WRONG_BYTES, NotImplementedError, RuntimeError, FileExistsError, NotADirectoryError, IsADirectoryError)

Entry = tuple[str, int, Any]  # path, bytes, and what its archive opens it by


class PackageError(ValueError):
    """Raised if an archive is not one model with its side files. The message says what to change."""


def package_is(head: bytes) -> bool:
    """Return whether a file with these first 512 bytes is an archive."""
    return head[:4] == b"PK\x03\x04" or head[257:262] == b"ustar"


def model_unpack(file: Path, *, bytes_max: int) -> Path:
    """Return the path of the .onnx file: `file` itself, or the one in the archive `file`, which is unpacked into a folder beside
    it. Raises PackageError.
    """
    with file.open("rb") as opened:
        if not package_is(opened.read(HEAD_BYTES)):
            return file
    folder = file.with_name(UNPACKED)
    try:
        with _archive(file) as (entries, open_entry):
            _entries_check(entries, bytes_max)
            for name, size, key in entries:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with open_entry(key) as source, path.open("xb") as target:
                    _copy(source, target, size)
    except PackageError:
        raise
    except DAMAGED as error:
        raise PackageError(
            f"The archive is damaged ({error}). Pack the files again and upload the new archive."
        ) from error
    return folder / next(name for name, _, _ in entries if name.endswith(".onnx"))


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    # At most the stated number of bytes: an archive may hold more than it says.
    while size:
        piece = source.read(min(size, PIECE_BYTES))
        if not piece:
            raise EOFError("a file in it is cut off")
        target.write(piece)
        size -= len(piece)


@contextmanager
def _archive(file: Path) -> Iterator[tuple[list[Entry], Any]]:
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            infos = [info for info in packed.infolist() if not info.is_dir()]
            yield [(info.filename, info.file_size, info) for info in infos], packed.open
        return
    with tarfile.open(file, "r:") as packed_tar:
        members = [member for member in packed_tar.getmembers() if not member.isdir()]
        wrong = [member.name for member in members if not member.isfile()]
        if wrong:
            raise PackageError(
                f"{wrong[0][:80]!r} in the archive is no file but a link or a device. Pack the file itself."
            )
        yield [(member.name, member.size, member) for member in members], packed_tar.extractfile


def _entries_check(entries: list[Entry], bytes_max: int) -> None:
    names = [name for name, _, _ in entries]
    if len(names) > ENTRIES_MAX:
        raise PackageError(f"The archive has {len(names):,} files; at most {ENTRIES_MAX} belong to a model.")
    total = sum(size for _, size, _ in entries)
    if total > bytes_max:
        raise PackageError(f"The files in the archive have {total:,} bytes; the maximum is {bytes_max:,}.")
    for name in names:
        if not _is_plain(name):
            raise PackageError(
                f"The archive has a file named {name[:80]!r}. Pack the files by their names below one folder."
            )
    if len(set(names)) < len(names):
        raise PackageError("The archive has two files of the same name. Pack each file once.")
    models = [name for name in names if name.endswith(".onnx")]
    if len(models) != 1:
        raise PackageError(f"The archive has {len(models)} files named *.onnx. Pack one model with its side files.")


def _is_plain(name: str) -> bool:
    """Whether a name stays below the folder that it is unpacked into, and is written in one way."""
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts
    return bool(name) and not outside and "\\" not in name and "\0" not in name and str(path) == name


def package_write(files: list[tuple[str, int, IO[bytes]]], target: IO[bytes]) -> None:
    """Write files, each with its name and size, as one archive."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, size, source in files:
            member = tarfile.TarInfo(PurePosixPath(name.replace("\\", "/")).name[:90] or "file")
            member.size = size
            packed.addfile(member, source)
