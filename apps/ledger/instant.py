"""Reads many rows as of one instant, while other processes write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def one_instant() -> Iterator[None]:
    """A context manager in which all statements see one snapshot and can't write. Inside another transaction, they see
    that transaction's snapshot.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
