"""A real web server with two threads: clients that send or read slowly hold up nobody."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from django.conf import settings

THREADS, SLOW = 2, 12
READY_SECONDS = 60.0
TEXT = "x" * 200_000

# A WSGI application that says what it was given; and one address whose answer is long.
APPLICATION = """
import django
django.setup()
def application(environ, start_response):
    if environ["PATH_INFO"] == "/long":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"y" * 65536 for _ in range(800))
    body = environ["wsgi.input"].read()
    told = [environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"], environ["CONTENT_LENGTH"], str(len(body)),
            environ.get("HTTP_COOKIE", ""), environ.get("HTTP_X_TWICE", ""), environ.get("HTTP_X_FORWARDED_FOR", "")]
    start_response("201 Created", [("X-Told", "|".join(told)), ("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("slow")
    (folder / "told.py").write_text(APPLICATION)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    environment = os.environ | {
        "HEAD_SECONDS": "3",
        "BODY_GRACE_SECONDS": "3",
        "BODY_BYTES_PER_SECOND_MIN": "1000000",
        "PYTHONPATH": f"{folder}:{settings.BASE_DIR}",
    }
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "told",
        "-k",
        "apps.config.serving.BufferingWorker",
        "--bind",
        f"127.0.0.1:{number}",
        "--threads",
        str(THREADS),
        "--no-control-socket",
        "--log-level",
        "warning",
    ]
    server = subprocess.Popen(command, env=environment, cwd=folder)
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with suppress(OSError):
            if ask(number, "GET", "/")[0] == 201:
                break
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield number
    server.terminate()
    server.wait(timeout=20)


def ask(
    port: int, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, list[str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, headers or {}, encode_chunked=isinstance(body, Iterator))  # type: ignore[arg-type]
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, answer.headers.get("X-Told", "").split("|"), data


def begun(port: int, stack: ExitStack, text: str) -> socket.socket:
    """A connection that has sent this and goes on no further."""
    made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
    made.sendall(text.encode())
    return made


def answer_of(made: socket.socket) -> bytes:
    """All that the server says before it ends the connection."""
    found = b""
    with suppress(ConnectionError):
        while piece := made.recv(65536):
            found += piece
    return found


def test_clients_that_send_slowly_take_no_thread_and_are_ended(port: int) -> None:
    with ExitStack() as stack:
        bodies = [begun(port, stack, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nab") for _ in range(SLOW)]
        heads = [begun(port, stack, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ") for _ in range(SLOW)]
        silent = [begun(port, stack, "") for _ in range(SLOW)]
        # All of them are still open when others are served.
        for _ in range(2 * THREADS):
            assert ask(port, "GET", "/page")[0] == 201
        for made in [*bodies, *heads, *silent]:
            made.settimeout(0)
            with pytest.raises(BlockingIOError):
                made.recv(1)
            made.settimeout(30)
        said = [answer_of(made) for made in bodies]
        assert all(text.startswith(b"HTTP/1.1 408 ") and b'"code": "request-too-slow"' in text for text in said)
        assert [answer_of(made) for made in [*heads, *silent]] == [b""] * 2 * SLOW


def test_clients_that_read_slowly_take_no_thread(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(2 * THREADS):
            begun(port, stack, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
        for _ in range(THREADS):
            assert ask(port, "GET", "/page")[0] == 201


def test_the_application_sees_the_request_as_it_was_sent(port: int) -> None:
    status, told, body = ask(
        port,
        "POST",
        "/a%2Fb%20%C3%A4?q=1&r=%20",
        TEXT,
        {"Cookie": "a=1", "X-Twice": "1", "X_Forwarded_For": "10.0.0.1"},
    )
    assert (status, body) == (201, TEXT.encode())
    assert told == ["POST", "/a/b ä".encode().decode("latin-1"), "q=1&r=%20", "200000", "200000", "a=1", "1", ""]


def test_a_body_without_a_stated_length_arrives_whole(port: int) -> None:
    pieces = (b"z" * 1000 for _ in range(3000))
    status, told, body = ask(port, "POST", "/", pieces, {"Transfer-Encoding": "chunked"})
    assert (status, told[3], body) == (201, "3000000", b"z" * 3_000_000)


def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(port: int) -> None:
    with ExitStack() as stack:
        made = begun(port, stack, f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {2**40}\r\n\r\n")
        said = answer_of(made)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert b'"code": "request-too-large"' in said


def test_every_way_to_start_the_server_uses_the_buffer() -> None:
    root = Path(settings.BASE_DIR)
    for name in ("bin/stack.py", "docker/Dockerfile"):
        assert "apps.config.serving.BufferingWorker" in (root / name).read_text()


def test_an_address_that_is_too_long_is_answered_by_a_page(port: int) -> None:
    status, _, page = ask(port, "GET", "/docs?q=" + "x" * 10_000)
    assert status == 414
    assert b"This address is too long" in page
    assert b"shorten what you entered" in page
    assert ask(port, "GET", "/docs?q=" + "x" * 1_000)[0] == 201
