"""Stored files that database rows refer to. A new file is deleted if its transaction fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta

import structlog
from django.core.files.base import ContentFile, File
from django.core.files.storage import default_storage
from django.db import connection, transaction

from apps.accounts.outages import is_database_away

ORPHAN_AFTER = timedelta(days=1)  # also the time to notice that the database was restored to an earlier moment
SWEPT_AT_ONCE = 500
HALF = ".part"  # what a writer that was killed leaves (storages.py)

log = structlog.get_logger("files")

_pending: ContextVar[list[str] | None] = ContextVar("pending", default=None)


def file_save(name: str, data: bytes | File[bytes]) -> str:
    """Store a file and return its key, which differs from `name` if `name` is in use.

    Raises Unavailable. Inside `file_transaction`, the file is deleted if the transaction fails.
    """
    key = default_storage.save(name, ContentFile(data) if isinstance(data, bytes) else data)
    pending = _pending.get()
    if pending is not None:
        pending.append(key)
    return key


def file_drop(key: str) -> None:
    """Delete a file that no row refers to. An outage is logged, not raised."""
    try:
        default_storage.delete(key)
    except Exception as error:  # noqa: BLE001 - whatever the storage answers, what was committed stays true
        log.warning("file not deleted", key=key, error=f"{type(error).__name__}: {error}"[:200])


def file_drop_on_commit(key: str) -> None:
    """Delete a file after the current transaction has committed.

    The transaction must remove the last reference to the file.
    """
    transaction.on_commit(lambda: file_drop(key), robust=True)


@contextmanager
def file_transaction() -> Iterator[None]:
    """Open a transaction. If the transaction fails, the files that `file_save` stored are deleted.

    Can be nested. If the connection is lost during the commit, the files are kept.
    """
    outer = _pending.get()
    files: list[str] = []
    mark = _pending.set(files)
    is_committing = is_undone = False
    try:
        with transaction.atomic():
            yield
            is_undone = connection.needs_rollback
            is_committing = not is_undone
    except BaseException as error:
        if not (is_committing and is_database_away(error)):
            _drop(files)
        raise
    finally:
        _pending.reset(mark)
    if is_undone:
        _drop(files)
    elif outer is not None:
        outer += files


def _drop(files: list[str]) -> None:
    for key in files:
        file_drop(key)


def files_sweep(prefix: str, named: Callable[[list[str]], Iterable[str]], *, now: datetime) -> int:
    """Delete unreferenced files under `prefix`, and return the number of deleted files.

    `named` takes a list of keys and returns those that rows refer to. Files younger than a day are kept.
    """
    swept, batch = 0, []
    for key in _keys(prefix):
        batch.append(key)
        if len(batch) == SWEPT_AT_ONCE:
            swept, batch = swept + _sweep(batch, named, now), []
    return swept + _sweep(batch, named, now)


def _keys(folder: str) -> Iterator[str]:
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    yield from (f"{folder}/{name}" for name in files)
    for name in folders:
        yield from _keys(f"{folder}/{name}")


def _sweep(keys: list[str], named: Callable[[list[str]], Iterable[str]], now: datetime) -> int:
    kept = {key for key in named(keys) if not key.endswith(HALF)}
    lost = [key for key in keys if key not in kept and _is_old(key, now)]
    for key in lost:
        log.warning("file of no row", key=key)
        file_drop(key)
    return len(lost)


def _is_old(key: str, now: datetime) -> bool:
    try:
        return default_storage.get_modified_time(key) < now - ORPHAN_AFTER
    except FileNotFoundError:
        return False
