"""Sends tasks to the broker after the commit, within a bounded time, and never raises an error in the caller.

The caller's commit holds whether or not the broker responds. A message that can't be sent is dropped on purpose,
because a periodic sweep sends it again (docs/adr/0040).
"""

from __future__ import annotations

import threading
import time
from typing import Any

import structlog
from celery import current_app
from django.db import transaction

# One attempt, and one more on a fresh connection: a kept connection may have died with the last broker.
RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
# After a failure nothing is sent for a moment, so that a job of 50 leases waits for a dead broker once.
AWAY_SECONDS = 1.0

log = structlog.get_logger("broker")


class _Breaker(threading.local):
    """A circuit breaker. Until `away_until` (monotonic seconds), this thread does not try to reach the broker."""

    away_until = 0.0


_breaker = _Breaker()


def task_send(name: str, *, queue: str, expires: float | None = None, **kwargs: Any) -> bool:
    """Send a task by name with `kwargs`. If the broker does not accept the task, log the failure and return False.

    Never raises. No result is stored.
    """
    if time.monotonic() < _breaker.away_until:
        return False
    try:
        current_app.send_task(
            name, kwargs=kwargs, queue=queue, expires=expires, ignore_result=True, retry=True, retry_policy=RETRY
        )
    except Exception as error:  # noqa: BLE001 - whatever the broker answers, what was committed stays true
        _breaker.away_until = time.monotonic() + AWAY_SECONDS
        log.warning("broker away", task=name, error=f"{type(error).__name__}: {error}"[:200])
        return False
    _breaker.away_until = 0.0
    return True


def task_send_on_commit(name: str, *, queue: str, **kwargs: Any) -> None:
    """Send a task after the transaction has committed. Failures don't reach the caller."""
    transaction.on_commit(lambda: task_send(name, queue=queue, **kwargs), robust=True)
