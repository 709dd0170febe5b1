"""Mutual exclusion without a row to lock: PostgreSQL's advisory locks, which end with their session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection


@contextmanager
def turn(name: str) -> Iterator[bool]:
    """Whether this process holds the lock; False if another does. A process that dies releases it with its connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name])
        is_ours: bool = cursor.fetchone()[0]
    try:
        yield is_ours
    finally:
        if is_ours:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])
