"""An event loop in front of the WSGI application, so that slow clients do not occupy WSGI threads.

See docs/adr/0066-a-buffer-before-the-threads.md.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from django.conf import settings

from apps.accounts.problems import Problem, problem_response

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Environ = dict[str, Any]
Wsgi = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
Answer = tuple[int, list[tuple[bytes, bytes]], "SpooledTemporaryFile[bytes]"]

IN_MEMORY = 2**20  # bytes of one body or answer; more goes to disk
PIECE = 2**16
MULTIPART_BYTES = 2**20  # what a form adds to its file
WAITING_MAX = 500  # requests that have arrived and wait for a thread
SPOOLED_MIN = (
    2**31
)  # bytes of bodies of one process that may arrive or be worked on at once, whatever the largest upload


class Gone(Exception):
    """Raised if the client disconnected before the request was complete."""


class Buffered:
    """An ASGI application that runs a WSGI application in a few threads. Only complete requests get a thread."""

    def __init__(self, wsgi: Wsgi, *, threads: int) -> None:
        self.wsgi = wsgi
        self.pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="request")
        self.waiting, self.spooled = 0, 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)

    async def _request(self, scope: Message, receive: Receive, send: Send) -> None:
        with SpooledTemporaryFile(max_size=IN_MEMORY) as body:
            size = 0
            try:
                async for piece in self._pieces(scope, receive):
                    size += len(piece)
                    self.spooled += len(piece)
                    body.write(piece)
                status, headers, answer = await self._run(_environ(scope, body, size))
            except Problem as refusal:
                status, headers, answer = _refused(refusal)
            except Gone:
                return
            finally:
                self.spooled -= size
        with answer:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            while piece := answer.read(PIECE):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self, scope: Message, receive: Receive) -> Any:
        most = settings.UPLOAD_BYTES_MAX + MULTIPART_BYTES
        stated = dict(scope["headers"]).get(b"content-length", b"")
        _size_check(int(stated) if stated.isdigit() else 0, most)
        clock, size = asyncio.get_running_loop().time, 0
        began = clock()
        while True:
            until = began + settings.BODY_GRACE_SECONDS + size / settings.BODY_BYTES_PER_SECOND_MIN
            try:
                message = await asyncio.wait_for(receive(), timeout=max(0.001, until - clock()))
            except TimeoutError:
                raise too_slow() from None
            if message["type"] == "http.disconnect":
                raise Gone
            piece = message.get("body", b"")
            size += len(piece)
            _size_check(size, most)
            if self.spooled + len(piece) > max(SPOOLED_MIN, 2 * most):
                raise busy()
            if piece:
                yield piece
            if not message.get("more_body", False):
                return
            if clock() > until:
                raise too_slow()

    async def _run(self, environ: Environ) -> Answer:
        if self.waiting >= WAITING_MAX:
            raise busy()
        with self._counted():
            return await asyncio.get_running_loop().run_in_executor(self.pool, _answer_of, self.wsgi, environ)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1


def too_slow() -> Problem:
    """Return the error for a body that arrives too slowly."""
    detail = (
        f"The body arrived more slowly than {settings.BODY_BYTES_PER_SECOND_MIN} bytes a second. Send smaller pieces."
    )
    return Problem(408, "The request took too long", detail, kind="request-too-slow")


def busy() -> Problem:
    """Return the error for a process with too many waiting requests."""
    return Problem(
        503, "Busy", "Too many requests are waiting. Try again in a moment.", kind="unavailable", retry_after=2
    )


def _size_check(size: int, most: int) -> None:
    if size > most:
        detail = f"The body is larger than {most:,} bytes; upload models in pieces."
        raise Problem(413, "The request is too large", detail, kind="request-too-large")


def _refused(refusal: Problem) -> Answer:
    # The connection is closed, because the body was not read.
    response = problem_response(refusal)
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    answer: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - who sends it closes it
    answer.write(response.content)
    answer.seek(0)
    sizes = [(b"content-length", str(len(response.content)).encode()), (b"connection", b"close")]
    return refusal.status, headers + sizes, answer


def _answer_of(wsgi: Wsgi, environ: Environ) -> Answer:
    # The same thread must close the resources that the request opened.
    started: list[tuple[str, list[tuple[str, str]]]] = []
    answer: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - who sends it closes it

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], int]:
        started.append((status, headers))
        return answer.write

    pieces = wsgi(environ, start_response)
    try:
        for piece in pieces:
            answer.write(piece)
    finally:
        if hasattr(pieces, "close"):
            pieces.close()
    answer.seek(0)
    status, headers = started[-1]
    plain = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return int(status.split(" ", 1)[0]), plain, answer


def _environ(scope: Message, body: SpooledTemporaryFile[bytes], size: int) -> Environ:
    body.seek(0)
    server, client = scope.get("server") or ("localhost", 0), scope.get("client") or ("", 0)
    path = unquote_to_bytes(scope["raw_path"].split(b"?", 1)[0]) if scope.get("raw_path") else scope["path"].encode()
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": path.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1] or 0),
        "REMOTE_ADDR": str(client[0]),
        "REMOTE_PORT": str(client[1]),
        "CONTENT_LENGTH": str(size),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
    }
    for raw_name, raw_value in scope["headers"]:
        name, value = cast("bytes", raw_name).decode("latin-1"), cast("bytes", raw_value).decode("latin-1")
        if "_" in name or name in {"content-length", "transfer-encoding"}:
            continue  # an underscore could pass for a header that a proxy of ours has set
        key = "CONTENT_TYPE" if name == "content-type" else f"HTTP_{name.upper().replace('-', '_')}"
        joint = "; " if name == "cookie" else ","
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    return environ


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
