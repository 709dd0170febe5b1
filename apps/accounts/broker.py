"""Sends tasks to the broker, at once or after the commit.

Sending is tried for a limited time. If it fails, the message is lost, but the work is not: a periodic sweep finds its row
and sends the task again (docs/adr/0040).
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
    """A circuit breaker. This thread does not contact the broker before `away_until` (monotonic seconds)."""

    away_until = 0.0


_breaker = _Breaker()


def task_send(name: str, *, queue: str, expires: float | None = None, **kwargs: Any) -> bool:
    """Send a task by name. Return False and log the failure if the broker does not accept the task.

    Never raises.
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
    """Send a task after the transaction has committed. A failure is logged, not raised."""
    transaction.on_commit(lambda: task_send(name, queue=queue, **kwargs), robust=True)
