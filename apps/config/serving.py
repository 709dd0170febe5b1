"""The gunicorn worker: an event loop handles clients, and threads handle requests."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from apps.config.buffering import Buffered
from apps.config.failures import long_address_page

# After each of its queries a request waits until the thread that computes gives the interpreter up. Python's own 5 ms would
# be a fifth of a second for the forty queries of an acceptance.
SWITCH_SECONDS = 0.0005


class GuardedProtocol(ASGIProtocol):
    """Gunicorn's protocol, extended with a time limit for the head of a connection's first request."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.worker.loop.call_later(settings.HEAD_SECONDS, self._end_without_head)

    def _send_error_response(self, status: int, message: str, extra_headers: Iterable[tuple[str, str]] = ()) -> None:
        # For an address that is too long, respond with an HTML page.
        if status != HTTPStatus.REQUEST_URI_TOO_LONG:
            super()._send_error_response(status, message, extra_headers)
            return
        body = long_address_page().encode()
        head = (
            f"HTTP/1.1 {status} URI Too Long\r\nContent-Type: text/html; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._safe_write(head.encode("ascii") + body)

    def _end_without_head(self) -> None:
        if not self._closed and self.req_count <= 1 and not self._request_ready.is_set() and self._awaiting_request:
            self.transport.abort()


class BufferingWorker(gasgi.ASGIWorker):
    """Serves a WSGI application. `--threads` is the number of requests processed at the same time."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Suppress gunicorn's warning that `--threads` is ignored. This worker uses threads."""

    def init_process(self) -> None:
        # Switch threads more often, use our protocol class, and raise the limit on open files.
        sys.setswitchinterval(SWITCH_SECONDS)
        gasgi.ASGIProtocol = GuardedProtocol
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        super().init_process()

    def load_wsgi(self) -> None:
        self.asgi = Buffered(self.app.wsgi(), threads=self.cfg.threads)
