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
    """What a worker has taken and not acknowledged. Kombu's keeps a message whose acknowledgement the broker refuses, as
    Valkey does on a full disk, among them for ever: a worker of one task at a time then takes none any more. Here it gives
    way to the next, and is delivered again after the visibility timeout, as what a dead worker held."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message."""
        try:
            super().ack(delivery_tag)
        except ResponseError as error:
            log.warning("acknowledgement refused", error=str(error)[:200])
            virtual.QoS.ack(self, delivery_tag)


redis.Channel.QoS = PatientQoS


class PatientConsumer(Consumer):
    """Celery's own consumer waits for up to 30 s between two attempts to connect; this one for three at most. It also lives
    on when the broker refuses to write, as Valkey does on a full disk, where Celery's ends its worker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection_errors: tuple[type[Exception], ...] = (*self.conninfo.connection_errors, ResponseError)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """A broker that answers with a refusal is asked again after a second, not at once."""
        super().on_connection_error_after_connected(exc)
        if isinstance(exc, ResponseError):
            time.sleep(REFUSED_SECONDS)

    def ensure_connected(self, conn: Any) -> Any:
        """The connection, once there is one, however long that takes."""

        def on_error(error: Exception, interval: float) -> None:
            log.warning("broker away", error=str(error)[:200], again_in=interval)

        found = conn.ensure_connection(
            on_error, None, callback=maybe_shutdown, interval_start=0.5, interval_step=0.5, interval_max=INTERVAL_MAX
        )
        self.first_connection_attempt = False
        self.broker_connection_retry_attempt = 0
        return found
