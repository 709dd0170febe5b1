"""Reports an outage of the database, storage or broker as a 503 with Retry-After."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, OperationalError, connection
from redis.exceptions import RedisError

from apps.accounts.problems import Problem

RETRY_AFTER_SECONDS = 5
# A worker that was cut off tells the database so for up to 20 s; then its silence tells.
PAUSE_SECONDS = 2.0
TRIES = 10
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# A disk or a mount that fails; not ENOENT, which says that a file is missing.
BROKEN = {errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ETIMEDOUT}
# SQLSTATE classes: connection, resources (a full disk too), the system below the server; and servers that start or stop.
DATABASE_AWAY = ("08", "53", "58", "57P")


class Unavailable(Problem):
    """A 503 error: a required service is unavailable."""

    def __init__(self, detail: str) -> None:
        again = f"Try again in {RETRY_AFTER_SECONDS} seconds."
        super().__init__(
            503, "Not available at the moment", f"{detail} {again}", kind="unavailable", retry_after=RETRY_AFTER_SECONDS
        )


def storage_unavailable(error: BaseException | None = None) -> Unavailable:
    """Return the error for a storage outage. The message mentions a full disk if that is the cause."""
    if isinstance(error, OSError) and error.errno in FULL:
        return Unavailable("The file storage is full, so nothing was accepted.")
    return Unavailable("The file storage is not responding, so nothing was accepted.")


def unavailable_of(error: BaseException | None) -> Unavailable | None:
    """Return the outage that caused an exception; None if the cause was not an outage."""
    if isinstance(error, Unavailable):
        return error
    if is_database_away(error):
        return Unavailable(
            "The database is not responding. Before you repeat your last change, check whether it was saved."
        )
    if isinstance(error, OSError) and error.errno in FULL | BROKEN:
        return storage_unavailable(error)
    if isinstance(error, RedisError):
        return Unavailable("The queue is not responding, so nothing was accepted.")
    return None


def is_database_away(error: BaseException | None) -> bool:
    """Return whether the error means that the database server is unreachable, starting, stopping or full."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    state = getattr(error.__cause__, "pgcode", None)
    return state is None or state.startswith(DATABASE_AWAY)


def told_when_back(tell: Callable[[], object]) -> None:
    """Call `tell` repeatedly, pausing before each call, until the database responds.

    Raises DatabaseError if the last attempt fails.
    """
    for left in reversed(range(TRIES)):
        time.sleep(PAUSE_SECONDS)
        try:
            tell()
        except DatabaseError:
            connection.close()
            if not left:
                raise
        else:
            return
