"""Mutual exclusion with PostgreSQL advisory locks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection


@contextmanager
def turn(name: str) -> Iterator[bool]:
    """Try to take the lock, and yield whether this process holds the lock.

    The lock is released at the end of the `with` block, or when the connection closes.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name])
        is_ours: bool = cursor.fetchone()[0]
    try:
        yield is_ours
    finally:
        if is_ours:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])
