"""One POST to an address that a customer named: only to public addresses, without redirects, in bounded time and size."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

TIMEOUT = 10.0  # seconds for each step
DEADLINE = 20.0  # seconds for all of it, for those who answer a byte at a time
ANSWER_BYTES = 500


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


def address_of(host: str, port: int) -> str:
    """The network address to call, looked up once and then used, so that it cannot change after it was checked."""
    found = [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for one in found:
        ip = ipaddress.ip_address(one.split("%")[0])
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        if not settings.WEBHOOK_PRIVATE_ADDRESSES and (not (mapped or ip).is_global or (mapped or ip).is_multicast):
            raise Refused(f"{host} leads to {one}, which is not a public address.")
    return found[0]


def post(url: str, *, body: bytes, headers: dict[str, str]) -> Answer:
    """Send `body` as JSON; whatever goes wrong is an Answer too."""
    try:
        return _post(url_check(url), body, headers)
    except (Refused, OSError, http.client.HTTPException, ValueError) as error:
        return Answer(None, "", f"{type(error).__name__}: {error}"[:300])


def _post(parts: SplitResult, body: bytes, headers: dict[str, str]) -> Answer:
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    plain = socket.create_connection((address_of(host, port), port), timeout=TIMEOUT)
    watch = threading.Timer(DEADLINE, _cut, args=(plain,))
    watch.daemon = True
    watch.start()
    try:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        secure = parts.scheme == "https"
        connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secure else plain
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "Takt", **headers})
        response = connection.getresponse()
        text = response.read1(ANSWER_BYTES).decode("utf-8", "replace").replace("\0", "")
        return Answer(response.status, text[:ANSWER_BYTES], "")
    finally:
        watch.cancel()
        _cut(plain)
        plain.close()


def _cut(plain: socket.socket) -> None:
    with suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
