"""Turns of work that talks to Stripe: one worker at a time for an invoice, and no failure that stops what is behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from uuid import UUID

import structlog
from django.db import DatabaseError, connection

from apps.collection.gateway import Uncertain

SILENCES_MAX = 10  # so many in a row without an answer: Stripe is down, and the next turn asks again

log = structlog.get_logger("stripe")
T = TypeVar("T")


def in_turn(ids: Iterable[T], work: Callable[[T], object]) -> int:
    """Do `work` for each id; returns for how many it was done (answered something true).

    What fails is logged and does not stop those behind it; `work` itself keeps why, for people to see.
    """
    done = silences = 0
    for one in ids:
        try:
            done += bool(work(one))
            silences = 0
        except Uncertain as outage:
            log.warning("stripe.later", about=str(one), reason=str(outage))
            silences += 1
            if silences >= SILENCES_MAX:
                break
        except Exception:
            log.exception("stripe.failed", about=str(one))
            silences = 0
    return done


@contextmanager
def turn_of(invoice_id: UUID) -> Iterator[bool]:
    """True while this process alone works on an invoice at Stripe; False when another does.

    The lock belongs to the database session, not to a transaction, since calls are made between transactions; it ends with
    the process that held it.
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
