"""The outbox: what others must hear of money is written with it, and carried out from here.

Whoever changes money calls `outbox_write` (or posts to the ledger, which writes a row of topic `ledger.<kind>`) in the
same transaction. The consumer below then gives each row to every handler whose topics fit (`handlers_known`):

- a local handler changes rows of our own database and runs in the transaction that marks the outbox row as delivered,
  so its effect happens exactly once;
- a `remote` handler talks to a network. It runs later, from a queue of its own, and may be called again after a crash
  between the call and the commit: it must give the other side a key that makes the repetition harmless.

Rows of one organisation reach each handler in the order in which they were written: a failed one is tried again with
growing pauses and the organisation's later rows wait behind it, until it succeeds or is dead. Other handlers and other
organisations go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache as remembered
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import connection, transaction
from django.utils.module_loading import import_string
from redis.exceptions import RedisError

from apps.accounts.broker import task_send
from apps.accounts.failpoints import failpoint
from apps.invoicing.models import OutboxWork
from apps.ledger.models import OutboxRow

BATCH = 100
BATCHES_AT_ONCE = 50  # of one call, for all organisations together; what is left is the next call's
ATTEMPTS_MAX = 24
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=6)
NUDGE = "apps.invoicing.tasks.outbox_deliver"
NUDGE_SECONDS = 1

log = structlog.get_logger("outbox")

Function = Callable[..., None]  # handle(row: OutboxRow, *, now: datetime); raises what went wrong


class Undeliverable(Exception):
    """A handler's word that trying again is of no use: the work is dead at once."""


@dataclass(frozen=True)
class Handler:
    """A named listener. `topics` are prefixes, `function` the dotted path of `handle(row, *, now)`.

    `queue`: the Celery queue whose worker carries out what waits, so that one slow network holds up no other.
    """

    name: str
    topics: tuple[str, ...]
    function: str
    remote: bool = False
    queue: str = "default"

    def fits(self, topic: str) -> bool:
        """True when the handler must hear of it."""
        return topic.startswith(self.topics)


@remembered
def handlers_known() -> tuple[Handler, ...]:
    """The handlers of all rooms, each stated in `apps/<room>/handlers.py` as a tuple HANDLERS, the lowest room first."""
    modules = [f"apps.{room}.handlers" for room in settings.ROOMS]
    return tuple(one for name in modules if find_spec(name) for one in import_module(name).HANDLERS)


def outbox_write(*, organisation_id: UUID, topic: str, payload: dict[str, Any], now: datetime) -> OutboxRow:
    """Write word for others, in the transaction of what it tells; it is carried out soon after the commit."""
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("word for others belongs to the transaction of what it tells")
    row = OutboxRow.objects.create(organisation_id=organisation_id, topic=topic, payload=payload, created_at=now)
    transaction.on_commit(nudge, robust=True)
    return row


def nudge() -> None:
    """Ask a worker to look now rather than at its next turn; at most one message a second."""
    try:
        is_first = cache.add("outbox-nudge", 1, timeout=NUDGE_SECONDS)
    except RedisError:
        return  # the next turn of the scheduler finds the rows
    if is_first:
        task_send(NUDGE, queue="default", expires=60)


def outbox_deliver(*, now: datetime, handlers: Sequence[Handler] | None = None) -> int:
    """Hand on what waits, for the handlers of every queue; returns how many rows and works were finished.

    Any number of processes may do this at once.
    """
    table = handlers_known() if handlers is None else tuple(handlers)
    finished = rows_hand_on(now=now, table=table)
    return finished + works_carry_out(now=now, table=table)


def rows_hand_on(*, now: datetime, table: tuple[Handler, ...] | None = None) -> int:
    """Give every row that waits to its handlers: local ones at once, the others get work; returns how many rows."""
    finished, left, table = 0, BATCHES_AT_ONCE, table or handlers_known()
    waiting = OutboxRow.objects.filter(delivered_at=None).order_by("organisation_id")
    for organisation_id in list(waiting.values_list("organisation_id", flat=True).distinct()):
        while left and (count := _rows_hand_on(organisation_id, table, now)):
            finished, left = finished + count, left - 1
    return finished


def works_carry_out(*, now: datetime, table: tuple[Handler, ...] | None = None, queue: str | None = None) -> int:
    """Carry out the work that is due, of the handlers of one queue or of all; returns how many were finished."""
    finished, left = 0, BATCHES_AT_ONCE
    open_works = OutboxWork.objects.filter(done_at=None, dead_at=None)
    lanes = open_works.order_by("handler", "row__organisation_id").values_list("handler", "row__organisation_id")
    known = {handler.name: handler for handler in table or handlers_known() if queue in {None, handler.queue}}
    for name, organisation_id in list(lanes.distinct()):
        while left and name in known and _work_try(known[name], organisation_id, now):
            finished, left = finished + 1, left - 1
    return finished


@transaction.atomic
def _rows_hand_on(organisation_id: UUID, table: tuple[Handler, ...], now: datetime) -> int:
    """The organisation's next rows to every handler. The first row is the lock: whoever holds it has the turn."""
    rows = OutboxRow.objects.filter(organisation_id=organisation_id, delivered_at=None).order_by("id")
    first = rows.values_list("id", flat=True).first()
    if first is None or not rows.select_for_update(skip_locked=True, of=("self",)).filter(pk=first).exists():
        return 0
    batch = list(rows[:BATCH])
    open_works = OutboxWork.objects.filter(row__organisation_id=organisation_id, done_at=None, dead_at=None)
    waiting = set(open_works.values_list("handler", flat=True))
    for row in batch:
        for handler in table:
            if handler.fits(row.topic):
                _hand(row, handler, waiting, now)
    failpoint("outbox.handed")
    OutboxRow.objects.filter(pk__in=[row.pk for row in batch]).update(delivered_at=now)
    return len(batch)


def _hand(row: OutboxRow, handler: Handler, waiting: set[str], now: datetime) -> None:
    """Run a local handler; what it cannot do now, what waits behind that, and what is remote becomes work."""
    if not handler.remote and handler.name not in waiting:
        error = _run(handler, row, now)
        if error is None:
            return
        work = OutboxWork(row=row, handler=handler.name, created_at=now, next_at=now)
        _failed(work, error, now)
    else:
        work = OutboxWork(row=row, handler=handler.name, created_at=now, next_at=now)
    work.save(force_insert=True)
    if work.dead_at is None:
        waiting.add(handler.name)


def _run(handler: Handler, row: OutboxRow, now: datetime) -> Exception | None:
    """What went wrong, or None; whatever a failed handler had changed is undone."""
    try:
        with transaction.atomic():
            _function(handler.function)(row, now=now)
    except Exception as error:  # noqa: BLE001 - whatever a handler raises must not stop the others; it is kept and shown
        return error
    return None


@remembered
def _function(path: str) -> Function:
    return cast("Function", import_string(path))


def _failed(work: OutboxWork, error: Exception, now: datetime) -> None:
    work.attempts += 1
    work.error = f"{type(error).__name__}: {error}"[:400]
    if isinstance(error, Undeliverable) or work.attempts >= ATTEMPTS_MAX:
        work.dead_at = now
    else:
        work.next_at = now + pause_after(work.attempts)
    log.warning("outbox", row=work.row_id, handler=work.handler, attempts=work.attempts, error=work.error)


def pause_after(attempts: int, *, first: timedelta = FIRST_PAUSE, longest: timedelta = LONGEST_PAUSE) -> timedelta:
    """5 s, 10 s, 20 s, ... up to six hours: 24 attempts in about three days."""
    pause: timedelta = first * (1 << min(attempts - 1, 20))
    return min(pause, longest)


@transaction.atomic
def _work_try(handler: Handler, organisation_id: UUID, now: datetime) -> bool:
    """The oldest open work of a handler for an organisation; True when it left the queue, done or dead."""
    lane = OutboxWork.objects.filter(
        handler=handler.name, row__organisation_id=organisation_id, done_at=None, dead_at=None
    ).order_by("row_id")
    first = lane.values_list("id", flat=True).first()
    if first is None:
        return False
    work = lane.select_for_update(skip_locked=True, of=("self",)).select_related("row").filter(pk=first).first()
    # A pause longer than the longest comes from a clock that was set back: it is over.
    if work is None or now < work.next_at <= now + LONGEST_PAUSE:
        return False
    error = _run(handler, work.row, now)
    if error is None:
        work.done_at, work.attempts, work.error = now, work.attempts + 1, ""
    else:
        _failed(work, error, now)
    work.save(update_fields=["attempts", "next_at", "error", "done_at", "dead_at"])
    return work.done_at is not None or work.dead_at is not None


@transaction.atomic
def outbox_revive(*, work_id: int, now: datetime) -> OutboxWork:
    """Give a dead work its attempts back; it is tried at the next turn, before what is newer. Safe to repeat."""
    work = OutboxWork.objects.select_for_update().get(pk=work_id)
    if work.dead_at is not None:
        work.dead_at, work.attempts, work.next_at = None, 0, now
        work.save(update_fields=["dead_at", "attempts", "next_at"])
        transaction.on_commit(nudge, robust=True)
    return work
