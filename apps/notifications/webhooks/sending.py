"""Sends POST requests to customers' addresses, which must be public. Follows no redirects."""

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
RESPONSE_BYTES = 500
_LATE = "No complete response within {} seconds."


@dataclass(frozen=True)
class Response:
    """A response: the status and the start of the body, or the error if no response was received."""

    status: int | None
    text: str
    error: str

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_overloaded(self) -> bool:
        # After these failures, other messages would fail too.
        return self.status is None or self.status == 429 or self.status >= 500


class Refused(Exception):
    """Raised if a request to an address is not allowed."""


def url_check(url: str) -> SplitResult:
    """Return the parts of an address. Raises Refused if requests to the address are not allowed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("Enter an address such as https://example.com/hook.") from None
    private = settings.WEBHOOK_PRIVATE_ADDRESSES
    schemes = {"https", "http"} if private else {"https"}
    has_user = bool(parts.username or parts.password)
    faults = (
        (parts.scheme not in schemes, "The address must start with https://."),
        (not parts.hostname or has_user, "The address must contain a host and no user name."),
        (not url.isascii() or any(sign <= " " for sign in url), "The address must be ASCII without spaces."),
        (port not in {None, 443} and not private, "The address must use port 443."),
    )
    for is_wrong, sentence in faults:
        if is_wrong:
            raise Refused(sentence)
    return parts


def destination_check(url: str) -> None:
    """Raise Refused if an address resolves to an internal network. A name that cannot be resolved is accepted."""
    parts = url_check(url)
    with suppress(OSError):
        address_of(parts.hostname or "", port_of(parts))


def port_of(parts: SplitResult) -> int:
    """Return the port that a URL states or implies."""
    return parts.port or (443 if parts.scheme == "https" else 80)


def address_of(host: str, port: int) -> str:
    """Resolve a host once, and return the network address to connect to.

    Raises Refused if any address of the host is internal, and OSError if the host cannot be resolved.
    """
    found = _lookup(host, port)
    for one in found:
        if not settings.WEBHOOK_PRIVATE_ADDRESSES and not is_public(one):
            raise Refused(f"{host} resolves to {one}, which is not a public address.")
    return found[0]


def _lookup(host: str, port: int) -> list[str]:
    # The lookup runs in a thread because the resolver has no timeout.
    addresses: Future[list[str]] = Future()

    def resolve() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses.set_result([str(row[4][0]) for row in rows])
        except (OSError, UnicodeError) as error:
            refused = OSError(f"The host name {host} cannot be resolved.")
            refused.__cause__ = error
            addresses.set_exception(refused)

    threading.Thread(target=resolve, daemon=True).start()
    try:
        return addresses.result(timeout=LOOKUP_SECONDS)
    except TimeoutError:
        raise OSError(f"The host name {host} was not resolved within {LOOKUP_SECONDS:.0f} seconds.") from None


def post(url: str, *, body: bytes, headers: dict[str, str]) -> Response:
    """Send `body` as JSON. Return the response or the failure.

    Takes at most WEBHOOK_SECONDS, plus the time to resolve the host.
    """
    is_late = threading.Event()
    try:
        return _post(url_check(url), body, headers, is_late)
    except TimeoutError:
        return Response(None, "", _LATE.format(settings.WEBHOOK_SECONDS))
    except (Refused, OSError, http.client.HTTPException, ValueError) as error:
        if is_late.is_set():
            return Response(None, "", _LATE.format(settings.WEBHOOK_SECONDS))
        return Response(None, "", failure_text(error)[:300])


def failure_text(error: Exception) -> str:
    """Return a sentence that says why no response was received."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The receiver's certificate is not valid: {error.verify_message}."
    if isinstance(error, ssl.SSLError):
        return f"The TLS connection failed: {error.reason}."
    if isinstance(error, ConnectionRefusedError):
        return "The receiver refused the connection."
    if isinstance(error, ConnectionError):
        return "The receiver closed the connection without a response."
    if isinstance(error, http.client.HTTPException):
        return "The receiver's answer is not HTTP."
    if isinstance(error, OSError) and error.strerror:
        return f"The connection failed: {error.strerror}."
    return str(error)


def _post(parts: SplitResult, body: bytes, headers: dict[str, str], is_late: threading.Event) -> Response:
    host, port = parts.hostname or "", port_of(parts)
    address = address_of(host, port)
    until = time.monotonic() + settings.WEBHOOK_SECONDS
    plain = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
    plain.settimeout(settings.WEBHOOK_SECONDS)  # between two bytes; the timer ends a response that trickles
    timer = threading.Timer(max(0.0, until - time.monotonic()), _shut_late, args=(plain, is_late))
    timer.daemon = True
    timer.start()
    try:
        connection = http.client.HTTPConnection(host, port)
        secure = parts.scheme == "https"
        connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secure else plain
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "Takt", **headers})
        response = connection.getresponse()
        if is_late.is_set():  # a response cut off in its headers looks complete
            raise TimeoutError
        text = ""
        with suppress(OSError, http.client.HTTPException):  # the status has arrived; the body is optional
            text = response.read1(RESPONSE_BYTES).decode("utf-8", "replace").replace("\0", "")
        return Response(response.status, text[:RESPONSE_BYTES], "")
    finally:
        timer.cancel()
        _shut(plain)
        plain.close()


def _shut_late(plain: socket.socket, is_late: threading.Event) -> None:
    is_late.set()
    _shut(plain)


def _shut(plain: socket.socket) -> None:
    with suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
