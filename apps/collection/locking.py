"""Runs work at Stripe, with one worker at a time for each invoice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from uuid import UUID

import structlog
from django.db import DatabaseError, connection

from apps.collection.gateway import OutcomeUnknown

OUTAGES_MAX = 10  # in a row without an answer: Stripe is down, so stop until the next run

log = structlog.get_logger("stripe")
T = TypeVar("T")


def run_each(ids: Iterable[T], work: Callable[[T], object]) -> int:
    """Run `work` for each item, and return how often `work` returned a true value.

    A failure is logged. After several outages in a row, the remaining items are skipped.
    """
    done = silences = 0
    for one in ids:
        try:
            done += bool(work(one))
            silences = 0
        except OutcomeUnknown as outage:
            log.warning("stripe.later", about=str(one), reason=str(outage))
            silences += 1
            if silences >= OUTAGES_MAX:
                break
        except Exception:
            log.exception("stripe.failed", about=str(one))
            silences = 0
    return done


@contextmanager
def invoice_lock_try(invoice_id: UUID) -> Iterator[bool]:
    """Try to lock an invoice for work at Stripe. Yield False if another process holds the lock.

    The lock belongs to the database session, not to a transaction.
    """
    name = int.from_bytes(invoice_id.bytes[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [name])
        is_ours = bool(cursor.fetchone()[0])
    try:
        yield is_ours
    finally:
        if is_ours:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [name])
