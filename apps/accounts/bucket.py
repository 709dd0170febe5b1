"""S3-compatible storage that reports outages as Unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from django.core.files import File
from storages.backends.s3 import S3Storage

from apps.accounts.outages import storage_unavailable


class BucketStorage(S3Storage):
    """S3-compatible storage.

    Raises Unavailable during an outage, and FileNotFoundError if an object is missing.
    """

    def _open(self, name: str, mode: str = "rb") -> File[Any]:
        with _watched():
            opened: File[Any] = super()._open(name, mode)
            return opened

    def _save(self, name: str, content: File[Any]) -> str:
        with _watched():
            return str(super()._save(name, content))

    def delete(self, name: str) -> None:
        """Delete an object. A missing object is not an error."""
        with _watched():
            super().delete(name)

    def exists(self, name: str) -> bool:
        with _watched():
            return bool(super().exists(name))

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Return the names of the folders and objects under a prefix."""
        with _watched():
            folders, files = super().listdir(path)
            return folders, files


@contextmanager
def _watched() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise storage_unavailable() from error
