"""Rate limits over a moving window, counted in Valkey for each key.

While Valkey is unavailable, each process counts separately.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TypeVar

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from limits import RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import MovingWindowRateLimiter

from apps.accounts.problems import Problem

IPV6_PREFIX = 64  # bits: a household or a server has that many addresses, and is one client
log = structlog.get_logger("rates")
T = TypeVar("T")


@dataclass(frozen=True)
class Rate:
    """A limit of `amount` events for each key in any period of `seconds`."""

    name: str
    amount: int
    seconds: int

    @property
    def item(self) -> RateLimitItemPerSecond:
        return RateLimitItemPerSecond(self.amount, self.seconds, namespace=f"takt-rate/{self.name}")


def client_address(request: HttpRequest) -> str:
    """Return the client's IP address, or "unknown".

    TRUSTED_PROXIES is the number of our own proxies, whose entries in X-Forwarded-For are trusted.
    """
    seen = str(request.META.get("REMOTE_ADDR", ""))
    trusted = settings.TRUSTED_PROXIES
    if trusted:
        hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",") if hop.strip()]
        seen = hops[-trusted] if len(hops) >= trusted else seen
    try:
        return str(ipaddress.ip_address(seen))
    except ValueError:
        return "unknown"


def client_key(request: HttpRequest) -> str:
    """Return the key for limits per client: the IPv4 address, or the network of the IPv6 address."""
    address = client_address(request)
    if ":" not in address:
        return address
    return str(ipaddress.ip_network(f"{address}/{IPV6_PREFIX}", strict=False).network_address)


def rate_take(rate: Rate, key: str) -> None:
    """Count one event. Raises Problem(429) without counting the event if the limit is reached."""
    wait = _decided(lambda limiter: _taken(limiter, rate, key))
    if wait is not None:
        raise too_many(wait)


def rate_check(rate: Rate, key: str) -> None:
    """Raise Problem(429) if the limit is reached. The call itself is not counted."""
    wait = _decided(lambda limiter: _left(limiter, rate, key))
    if wait is not None:
        raise too_many(wait)


def rate_forget(rate: Rate, key: str) -> None:
    """Reset the counter of this key."""
    _decided(lambda limiter: limiter.clear(rate.item, _digest(key)))


def too_many(seconds: int) -> Problem:
    """Return the 429 error for a reached limit, with Retry-After."""
    return Problem(
        429,
        "Too many requests",
        f"Wait {wait_text(seconds)}, then try again.",
        kind="too-many-requests",
        retry_after=seconds,
    )


def wait_text(seconds: int) -> str:
    """Return a waiting time in words, such as "45 seconds" or "12 minutes"."""
    if seconds < 90:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    return f"{math.ceil(seconds / 60)} minutes"


View = Callable[..., HttpResponseBase]


def limited(
    rate: Rate, *, key: Callable[[HttpRequest], str] = client_key, methods: tuple[str, ...] = ("POST",)
) -> Callable[[View], View]:
    """Limit the rate of requests to a page, by default for each client address.

    Only requests with one of `methods` count.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if request.method in methods:
                rate_take(rate, key(request))
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def _taken(limiter: MovingWindowRateLimiter, rate: Rate, key: str) -> int | None:
    if limiter.hit(rate.item, _digest(key)):
        return None
    return _wait(limiter, rate, key)


def _left(limiter: MovingWindowRateLimiter, rate: Rate, key: str) -> int | None:
    return None if limiter.test(rate.item, _digest(key)) else _wait(limiter, rate, key)


def _wait(limiter: MovingWindowRateLimiter, rate: Rate, key: str) -> int:
    until = limiter.get_window_stats(rate.item, _digest(key)).reset_time
    return min(max(1, math.ceil(until - time.time())), rate.seconds)


def _digest(key: str) -> str:
    # Keys contain people's addresses.
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _decided(ask: Callable[[MovingWindowRateLimiter], T]) -> T:
    try:
        return ask(_shared())
    except StorageError as error:
        log.warning("rates counted in this process", error=str(error.storage_error)[:200])
        return ask(_own())


@lru_cache(maxsize=1)
def _shared() -> MovingWindowRateLimiter:
    url = settings.REDIS_CLIENT_URL
    url = url.replace("unix://", "redis+unix://", 1) if url.startswith("unix://") else url
    return MovingWindowRateLimiter(storage_from_string(url, wrap_exceptions=True))


@lru_cache(maxsize=1)
def _own() -> MovingWindowRateLimiter:
    return MovingWindowRateLimiter(MemoryStorage())
