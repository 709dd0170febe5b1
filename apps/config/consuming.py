"""A worker's connection to the broker."""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery.worker.consumer import Consumer
from celery.worker.consumer.consumer import maybe_shutdown
from kombu.transport import redis, virtual
from redis.exceptions import ResponseError

INTERVAL_MAX = 3.0
REFUSED_SECONDS = 1.0

log = structlog.get_logger("worker")


class PatientQoS(redis.QoS):
    """Tracks the messages that a worker has received but not acknowledged.

    If the broker refuses an acknowledgement, as Valkey does when its disk is full, Kombu keeps the message forever. A
    worker that runs one task at a time then accepts no other message. This class drops the message instead, and the
    broker delivers it again after the visibility timeout.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message. If the broker refuses, drop the message."""
        try:
            super().ack(delivery_tag)
        except ResponseError as error:
            log.warning("acknowledgement refused", error=str(error)[:200])
            virtual.QoS.ack(self, delivery_tag)


redis.Channel.QoS = PatientQoS


class PatientConsumer(Consumer):
    """A consumer that reconnects sooner than Celery's and survives a broker that refuses writes.

    Celery's consumer waits up to 30 s between two attempts to connect; this consumer waits at most 3 s. Valkey refuses
    writes when its disk is full. With Celery's consumer, this would end the worker.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection_errors: tuple[type[Exception], ...] = (*self.conninfo.connection_errors, ResponseError)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Wait one second before the next attempt if the broker responded with an error."""
        super().on_connection_error_after_connected(exc)
        if isinstance(exc, ResponseError):
            time.sleep(REFUSED_SECONDS)

    def ensure_connected(self, conn: Any) -> Any:
        """Wait for the broker without a time limit, and return the connection."""

        def on_error(error: Exception, interval: float) -> None:
            log.warning("broker away", error=str(error)[:200], again_in=interval)

        found = conn.ensure_connection(
            on_error, None, callback=maybe_shutdown, interval_start=0.5, interval_step=0.5, interval_max=INTERVAL_MAX
        )
        self.first_connection_attempt = False
        self.broker_connection_retry_attempt = 0
        return found
