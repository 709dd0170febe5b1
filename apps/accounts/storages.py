"""File storage in a folder, without partial files.

Files are written under a temporary name, flushed, and then renamed.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files import File
from django.core.files.storage import FileSystemStorage

from apps.accounts.outages import BROKEN, FULL, Unavailable, storage_unavailable

AWAY = FULL | BROKEN | {errno.EACCES, errno.EPERM}
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

# The device of each root that this process has seen. One that is gone, or is another device, is not mounted: writing
# there would hide files from who looks after the mount is back, and reading would call files missing that are not.
_devices: dict[str, int] = {}


class FolderStorage(FileSystemStorage):
    """Storage in a folder.

    Raises Unavailable if the folder is missing or fewer than FREE_BYTES_MIN bytes would remain free.
    """

    def _open(self, name: str, mode: str = "rb") -> File[Any]:
        with self._watched():
            opened: File[Any] = super()._open(name, mode)  # type: ignore[misc]  # the stubs leave it out
            return opened

    def _save(self, name: str, content: File[Any]) -> str:
        with self._watched():
            self._room_check(content.size or 0)
            path = Path(self.path(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.parent / f".{uuid.uuid4().hex}.part"
            try:
                _write(beside, content)
                while not _named(beside, path):
                    name = self.get_available_name(name)
                    path = Path(self.path(name))
            finally:
                with suppress(OSError):
                    beside.unlink()
            return str(Path(name).as_posix())

    def delete(self, name: str) -> None:
        """Delete a file or an empty folder. A missing file is not an error."""
        with self._watched():
            super().delete(name)

    def exists(self, name: str) -> bool:
        with self._watched():
            return super().exists(name)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Return the names of the folders and files in a folder."""
        with self._watched():
            return super().listdir(path)

    def _room_check(self, wanted: int) -> None:
        if free_bytes(Path(self.location)) - wanted < settings.FREE_BYTES_MIN:
            raise Unavailable("The file storage is full, so nothing was accepted.")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        # A missing file in an existing folder is not an outage.
        self._root_check()
        try:
            yield
        except FileNotFoundError:
            self._root_check()
            raise
        except OSError as error:
            if error.errno not in AWAY:
                raise
            raise storage_unavailable(error) from error

    def _root_check(self) -> None:
        root = str(self.location)
        try:
            device = Path(root).stat().st_dev
        except FileNotFoundError:
            if root in _devices:
                raise storage_unavailable() from None
            Path(root).mkdir(parents=True, exist_ok=True)
            device = Path(root).stat().st_dev
        except OSError as error:
            raise storage_unavailable(error) from error
        if _devices.setdefault(root, device) != device:
            raise storage_unavailable()


def free_bytes(place: Path) -> int:
    """Return the number of free bytes on the disk that holds a folder. The folder need not exist yet."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def _named(beside: Path, path: Path) -> bool:
    # If two writers use the same name at the same time, exactly one of them succeeds.
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if path.exists():
            return False
        beside.rename(path)  # a file system without links: names are random enough where two write at once
    return True


def _write(path: Path, content: File[Any]) -> None:
    with path.open("xb") as file:
        for chunk in content.chunks():
            file.write(chunk if isinstance(chunk, bytes) else chunk.encode())
        file.flush()
        os.fsync(file.fileno())
