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

    A message whose acknowledgement the broker refuses is dropped; otherwise, Kombu would keep the message forever.
    """

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message, or drop the message if the broker refuses."""
        try:
            super().ack(delivery_tag)
        except ResponseError as error:
            log.warning("acknowledgement refused", error=str(error)[:200])
            virtual.QoS.ack(self, delivery_tag)


redis.Channel.QoS = PatientQoS


class PatientConsumer(Consumer):
    """A consumer that reconnects sooner than Celery's, and survives a broker that refuses writes."""

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
