"""The outbox: messages about financial changes, each written in the same transaction as the change.

A local handler changes our own database and takes effect exactly once. A remote handler uses the network and may run
again after a crash, so it must send an idempotency key.

Each handler gets the rows of one organisation in order. A failed handler is retried, and the organisation's later rows
wait for it.
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
BATCHES_MAX = 50  # of one run, for all organisations; the rest is left to the next run
ATTEMPTS_MAX = 24
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=6)
NOTIFY_TASK = "apps.invoicing.tasks.outbox_deliver"
NOTIFY_SECONDS = 1

log = structlog.get_logger("outbox")

Function = Callable[..., None]  # handle(row: OutboxRow, *, now: datetime); raises what went wrong


class Undeliverable(Exception):
    """Raised by a handler if no retry can succeed. The work is then given up."""


@dataclass(frozen=True)
class Handler:
    """A handler of outbox rows. `function` is the dotted path of `handle(row, *, now)`.

    `topics` lists topic prefixes. `queue` is the Celery queue for pending work.
    """

    name: str
    topics: tuple[str, ...]
    function: str
    remote: bool = False
    queue: str = "default"

    def fits(self, topic: str) -> bool:
        return topic.startswith(self.topics)


@remembered
def handlers_known() -> tuple[Handler, ...]:
    """Return the handlers that apps list in `apps/<app>/handlers.py`, in the order of the ROOMS setting."""
    modules = [f"apps.{room}.handlers" for room in settings.ROOMS]
    return tuple(one for name in modules if find_spec(name) for one in import_module(name).HANDLERS)


def outbox_write(*, organisation_id: UUID, topic: str, payload: dict[str, Any], now: datetime) -> OutboxRow:
    """Write a message about a change. The caller must be in the transaction of that change."""
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "an outbox message must be written in the transaction of its change"
        )
    row = OutboxRow.objects.create(organisation_id=organisation_id, topic=topic, payload=payload, created_at=now)
    transaction.on_commit(worker_notify, robust=True)
    return row


def worker_notify() -> None:
    """Ask a worker to process the outbox now. At most one request is sent per second."""
    try:
        is_first = cache.add("outbox-nudge", 1, timeout=NOTIFY_SECONDS)
    except RedisError:
        return  # the next scheduled run finds the rows
    if is_first:
        task_send(NOTIFY_TASK, queue="default", expires=60)


def outbox_deliver(*, now: datetime, handlers: Sequence[Handler] | None = None) -> int:
    """Dispatch all waiting rows and run all due work. Return the number of rows and pieces of work finished.

    Several processes can call this function at the same time.
    """
    table = handlers_known() if handlers is None else tuple(handlers)
    finished = rows_dispatch(now=now, table=table)
    return finished + works_run(now=now, table=table)


def rows_dispatch(*, now: datetime, table: tuple[Handler, ...] | None = None) -> int:
    """Dispatch every waiting row. Return the number of rows dispatched."""
    finished, left, table = 0, BATCHES_MAX, table or handlers_known()
    waiting = OutboxRow.objects.filter(delivered_at=None).order_by("organisation_id")
    for organisation_id in list(waiting.values_list("organisation_id", flat=True).distinct()):
        while left and (count := _rows_dispatch(organisation_id, table, now)):
            finished, left = finished + count, left - 1
    return finished


def works_run(*, now: datetime, table: tuple[Handler, ...] | None = None, queue: str | None = None) -> int:
    """Run the due work of a queue; by default, of all queues. Return the number of pieces of work finished."""
    finished, left = 0, BATCHES_MAX
    open_works = OutboxWork.objects.filter(done_at=None, dead_at=None)
    lanes = open_works.order_by("handler", "row__organisation_id").values_list("handler", "row__organisation_id")
    known = {handler.name: handler for handler in table or handlers_known() if queue in {None, handler.queue}}
    for name, organisation_id in list(lanes.distinct()):
        while left and name in known and _work_run(known[name], organisation_id, now):
            finished, left = finished + 1, left - 1
    return finished


@transaction.atomic
def _rows_dispatch(organisation_id: UUID, table: tuple[Handler, ...], now: datetime) -> int:
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
                _row_dispatch(row, handler, waiting, now)
    failpoint("outbox.handed")
    OutboxRow.objects.filter(pk__in=[row.pk for row in batch]).update(delivered_at=now)
    return len(batch)


def _row_dispatch(row: OutboxRow, handler: Handler, waiting: set[str], now: datetime) -> None:
    if not handler.remote and handler.name not in waiting:
        error = _run(handler, row, now)
        if error is None:
            return
        work = OutboxWork(row=row, handler=handler.name, created_at=now, next_at=now)
        _work_failed(work, error, now)
    else:
        work = OutboxWork(row=row, handler=handler.name, created_at=now, next_at=now)
    work.save(force_insert=True)
    if work.dead_at is None:
        waiting.add(handler.name)


def _run(handler: Handler, row: OutboxRow, now: datetime) -> Exception | None:
    try:
        with transaction.atomic():
            _function(handler.function)(row, now=now)
    except Exception as error:  # noqa: BLE001 - no error of a handler may stop the others; it is stored and shown
        return error
    return None


@remembered
def _function(path: str) -> Function:
    return cast("Function", import_string(path))


def _work_failed(work: OutboxWork, error: Exception, now: datetime) -> None:
    work.attempts += 1
    work.error = f"{type(error).__name__}: {error}"[:400]
    if isinstance(error, Undeliverable) or work.attempts >= ATTEMPTS_MAX:
        work.dead_at = now
    else:
        work.next_at = now + pause_after(work.attempts)
    log.warning("outbox", row=work.row_id, handler=work.handler, attempts=work.attempts, error=work.error)


def pause_after(attempts: int, *, first: timedelta = FIRST_PAUSE, longest: timedelta = LONGEST_PAUSE) -> timedelta:
    """Return the pause after the given number of attempts."""
    pause: timedelta = first * (1 << min(attempts - 1, 20))
    return min(pause, longest)


@transaction.atomic
def _work_run(handler: Handler, organisation_id: UUID, now: datetime) -> bool:
    lane = OutboxWork.objects.filter(
        handler=handler.name, row__organisation_id=organisation_id, done_at=None, dead_at=None
    ).order_by("row_id")
    first = lane.values_list("id", flat=True).first()
    if first is None:
        return False
    work = lane.select_for_update(skip_locked=True, of=("self",)).select_related("row").filter(pk=first).first()
    # A pause beyond the maximum comes from a clock that was set back, so it counts as past.
    if work is None or now < work.next_at <= now + LONGEST_PAUSE:
        return False
    error = _run(handler, work.row, now)
    if error is None:
        work.done_at, work.attempts, work.error = now, work.attempts + 1, ""
    else:
        _work_failed(work, error, now)
    work.save(update_fields=["attempts", "next_at", "error", "done_at", "dead_at"])
    return work.done_at is not None or work.dead_at is not None


@transaction.atomic
def outbox_revive(*, work_id: int, now: datetime) -> OutboxWork:
    """Reset the attempts of work that was given up, so that the work is due now."""
    work = OutboxWork.objects.select_for_update().get(pk=work_id)
    if work.dead_at is not None:
        work.dead_at, work.attempts, work.next_at = None, 0, now
        work.save(update_fields=["dead_at", "attempts", "next_at"])
        transaction.on_commit(worker_notify, robust=True)
    return work
