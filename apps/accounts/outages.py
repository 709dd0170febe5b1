"""An outage of database, storage or broker as a refusal: 503 with Retry-After, and what was asked for is not there."""

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
    """A part that this request needs does not serve; nothing was accepted, and the same request works later."""

    def __init__(self, detail: str) -> None:
        again = f"Try again in {RETRY_AFTER_SECONDS} seconds."
        super().__init__(
            503, "Not available at the moment", f"{detail} {again}", kind="unavailable", retry_after=RETRY_AFTER_SECONDS
        )


def storage_unavailable(error: BaseException | None = None) -> Unavailable:
    """The refusal when the storage keeps or gives no files; a full one is named."""
    if isinstance(error, OSError) and error.errno in FULL:
        return Unavailable("The disk of the file storage is full, so nothing was accepted.")
    return Unavailable("The file storage does not answer, so nothing was accepted.")


def unavailable_of(error: BaseException | None) -> Unavailable | None:
    """The outage behind an exception; None when it is something else, a defect of ours say."""
    if isinstance(error, Unavailable):
        return error
    if is_database_away(error):
        return Unavailable("The database does not answer. Look whether your last change is there before you repeat it.")
    if isinstance(error, OSError) and error.errno in FULL | BROKEN:
        return storage_unavailable(error)
    if isinstance(error, RedisError):
        return Unavailable("The queue does not answer, so nothing was accepted.")
    return None


def is_database_away(error: BaseException | None) -> bool:
    """Whether the server cannot be reached, is starting or stopping, or has no room; not a fault in a statement."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    state = getattr(error.__cause__, "pgcode", None)
    return state is None or state.startswith(DATABASE_AWAY)


def told_when_back(tell: Callable[[], object]) -> None:
    """Call `tell`, which gives work back, after a pause, and again until the database answers. Raises DatabaseError when it
    stays away."""
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
