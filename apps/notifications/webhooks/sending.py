"""One POST to an address that a customer named: only to public addresses, without redirects, in bounded time and size."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from apps.notifications.webhooks.addresses import is_public

LOOKUP_SECONDS = 3.0
CONNECT_SECONDS = 3.0
ANSWER_BYTES = 500
_LATE = "No complete answer within {} seconds."


@dataclass(frozen=True)
class Answer:
    """What came back: a status and the beginning of the body, or why nothing did."""

    status: int | None
    text: str
    error: str

    @property
    def is_success(self) -> bool:
        """2xx."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_overloaded(self) -> bool:
        """Nothing came, or the receiver says that it cannot serve now: others would fare no better."""
        return self.status is None or self.status == 429 or self.status >= 500


class Refused(Exception):
    """An address that is not called, and why."""


def url_check(url: str) -> SplitResult:
    """The parts of an address that may be called at all. Raises Refused with a sentence."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("This is not an address.") from None
    private = settings.WEBHOOK_PRIVATE_ADDRESSES
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise Refused("The address must begin with https://.")
    if not parts.hostname or parts.username or parts.password:
        raise Refused("The address must name a host, and no user.")
    if not url.isascii() or any(sign <= " " for sign in url):
        raise Refused("The address may hold no spaces and no letters beyond ASCII.")
    if port not in {None, 443} and not private:
        raise Refused("The address must use port 443.")
    return parts


def destination_check(url: str) -> None:
    """Refuse an address that leads to an internal network today; a name that cannot be looked up now is not refused.

    Raises Refused. Each delivery checks again, and connects to the very address that it has checked.
    """
    parts = url_check(url)
    with suppress(OSError):
        address_of(parts.hostname or "", port_of(parts))


def port_of(parts: SplitResult) -> int:
    """The port that a URL names or implies."""
    return parts.port or (443 if parts.scheme == "https" else 80)


def address_of(host: str, port: int) -> str:
    """The network address to call, looked up once and then used, so that it cannot change after it was checked.

    Raises Refused when any address of the host is internal, OSError when there is none.
    """
    found = _lookup(host, port)
    for one in found:
        if not settings.WEBHOOK_PRIVATE_ADDRESSES and not is_public(one):
            raise Refused(f"{host} leads to {one}, which is not a public address.")
    return found[0]


def _lookup(host: str, port: int) -> list[str]:
    """The resolver has no timeout of its own, so it is asked from a thread that is left behind when it takes too long."""
    answer: Future[list[str]] = Future()

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.set_result([str(row[4][0]) for row in rows])
        except (OSError, UnicodeError) as error:
            answer.set_exception(OSError(f"{host} cannot be looked up: {error}"))

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(timeout=LOOKUP_SECONDS)
    except TimeoutError:
        raise OSError(f"{host} cannot be looked up: no answer within {LOOKUP_SECONDS:.0f} seconds") from None


def post(url: str, *, body: bytes, headers: dict[str, str]) -> Answer:
    """Send `body` as JSON; whatever goes wrong is an Answer too. Takes at most WEBHOOK_SECONDS, and a lookup."""
    is_late = threading.Event()
    try:
        return _post(url_check(url), body, headers, is_late)
    except TimeoutError:
        return Answer(None, "", _LATE.format(settings.WEBHOOK_SECONDS))
    except (Refused, OSError, http.client.HTTPException, ValueError) as error:
        if is_late.is_set():
            return Answer(None, "", _LATE.format(settings.WEBHOOK_SECONDS))
        return Answer(None, "", f"{type(error).__name__}: {error}"[:300])


def _post(parts: SplitResult, body: bytes, headers: dict[str, str], is_late: threading.Event) -> Answer:
    host, port = parts.hostname or "", port_of(parts)
    address = address_of(host, port)
    until = time.monotonic() + settings.WEBHOOK_SECONDS
    plain = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
    plain.settimeout(settings.WEBHOOK_SECONDS)  # between two bytes; the watch ends those who send one at a time
    watch = threading.Timer(max(0.0, until - time.monotonic()), _cut_late, args=(plain, is_late))
    watch.daemon = True
    watch.start()
    try:
        connection = http.client.HTTPConnection(host, port)
        secure = parts.scheme == "https"
        connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secure else plain
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "Takt", **headers})
        response = connection.getresponse()
        if is_late.is_set():  # what was cut off amid its headers looks complete
            raise TimeoutError
        text = ""
        with suppress(OSError, http.client.HTTPException):  # the status has come, and it is what counts
            text = response.read1(ANSWER_BYTES).decode("utf-8", "replace").replace("\0", "")
        return Answer(response.status, text[:ANSWER_BYTES], "")
    finally:
        watch.cancel()
        _cut(plain)
        plain.close()


def _cut_late(plain: socket.socket, is_late: threading.Event) -> None:
    is_late.set()
    _cut(plain)


def _cut(plain: socket.socket) -> None:
    with suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
