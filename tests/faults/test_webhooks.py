"""Receivers that never answer hold up nobody else: neither another customer's message nor another customer's job."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from celery import current_app
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.notifications.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks import services
from bin.queues import WORKERS
from tests.dispatch.real import real_program
from tests.dispatch.scene import Scene
from tests.faults.hosts import wait_until
from tests.faults.test_jobs import is_finished
from tests.workers import Crew

RECEIVERS, MESSAGES = 4, 40
PATIENCE = 60.0  # of the test
HANGS = {"WEBHOOK_SECONDS": "300", "WEBHOOK_PRIVATE_ADDRESSES": "1"}  # an attempt outlasts the test


class Silent:
    """Receivers that accept and never answer."""

    def __init__(self, count: int) -> None:
        self.sockets = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(count)]
        self.held: list[socket.socket] = []
        for one in self.sockets:
            threading.Thread(target=self._hold, args=(one,), daemon=True).start()

    def _hold(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                self.held.append(server.accept()[0])

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{one.getsockname()[1]}/" for one in self.sockets]

    def close(self) -> None:
        for one in [*self.held, *self.sockets]:
            one.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    found = Silent(RECEIVERS)
    yield found
    found.close()


@pytest.fixture
def heard() -> Iterator[tuple[str, threading.Event]]:
    """A receiver that answers at once, and the event of its first message."""
    event = threading.Event()

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            event.set()

        def log_message(self, *words: object) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", event
    server.shutdown()
    server.server_close()


@pytest.mark.thorough
def test_four_receivers_that_never_answer_delay_no_other_customers_message_and_job(
    present: Scene, celery_worker: Crew, silent: Silent, heard: tuple[str, threading.Event], settings: SettingsWrapper
) -> None:
    settings.WEBHOOK_PRIVATE_ADDRESSES = True
    cast, now = present.cast, timezone.now()
    hanging = [
        services.endpoint_create(
            organisation=cast.stranger_organisation, url=url, topics=["usage"], actor=cast.stranger, now=now
        )
        for url in silent.urls
    ]
    for number in range(MESSAGES):
        services.test_message(endpoint=hanging[number % RECEIVERS], now=now)
    celery_worker.start("webhooks", environment=HANGS, how=WORKERS["webhooks"])
    celery_worker.start("default", "dispatch", present.market.lpu.queue)
    current_app.send_task("apps.notifications.tasks.webhooks_send", queue="webhooks")
    wait_until(lambda: len(silent.held) == RECEIVERS, seconds=PATIENCE, otherwise="the silent ones were not called")

    url, event = heard
    good = services.endpoint_create(
        organisation=cast.organisation, url=url, topics=["usage"], actor=cast.owner, now=timezone.now()
    )
    job = present.job(present.contract((real_program(present), 4)), 4, shape=(1, 8))
    for task in ("offer_due", "sweep"):
        current_app.send_task(f"apps.dispatch.tasks.{task}", queue="dispatch")
    wait_until(lambda: is_finished(job), seconds=PATIENCE, otherwise="the job waited behind the silent receivers")
    current_app.send_task("apps.invoicing.tasks.outbox_deliver", queue="default")
    wait_until(
        lambda: WebhookDelivery.objects.filter(endpoint=good).exists(), seconds=PATIENCE, otherwise="nothing to tell"
    )
    current_app.send_task("apps.notifications.tasks.webhooks_send", queue="webhooks")
    assert event.wait(PATIENCE), "the message waited behind the silent receivers"

    # The order: not one attempt at a silent receiver has ended, and each receiver holds one message alone.
    assert not WebhookAttempt.objects.filter(delivery__endpoint__in=hanging).exists()
    assert len(silent.held) == RECEIVERS
    wait_until(
        lambda: WebhookEndpoint.objects.get(pk=good.pk).prompt_at is not None, seconds=PATIENCE, otherwise="not noted"
    )
