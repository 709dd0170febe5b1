"""Signs of life of a worker while it waits for a disk, a storage or a large file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from django.db import DatabaseError, connection, transaction

BEAT_SECONDS = 5.0
LOCK_WAIT = "1s"

log = structlog.get_logger("beats")


@contextmanager
def beating(beat: Callable[[], object], *, seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Call `beat` every few seconds from a thread until the block ends.

    The thread has a database connection of its own and never waits long for a lock, so that it cannot hold up the block,
    which may have the row itself. A beat that fails is logged, and the next one tries again.
    """
    over = threading.Event()

    def run() -> None:
        try:
            while not over.wait(seconds):
                try:
                    _beat_once(beat)
                except DatabaseError as error:
                    log.warning("no heartbeat", error=str(error)[:200])
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=run, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@transaction.atomic
def _beat_once(beat: Callable[[], object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_WAIT])
    beat()
