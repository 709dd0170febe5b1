"""How often something may be done: limits counted in Valkey over a moving window, for a client address, a person or a key.

Every process counts in the same place. While Valkey is away each process counts for itself, so that nobody is locked out
and no limit is gone.
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
    """At most `amount` within any `seconds`, counted apart for each key."""

    name: str
    amount: int
    seconds: int

    @property
    def item(self) -> RateLimitItemPerSecond:
        return RateLimitItemPerSecond(self.amount, self.seconds, namespace=f"takt-rate/{self.name}")


def client_address(request: HttpRequest) -> str:
    """The client's IP address, or "unknown".

    Behind proxies, TRUSTED_PROXIES states how many of ours stand in front: each adds the address that it saw to the end of
    X-Forwarded-For, and whatever a client wrote there itself stands further left and is ignored.
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
    """What limits for a client address count by: the address, or its network for IPv6."""
    address = client_address(request)
    if ":" not in address:
        return address
    return str(ipaddress.ip_network(f"{address}/{IPV6_PREFIX}", strict=False).network_address)


def rate_take(rate: Rate, key: str) -> None:
    """Count one. Raises Problem(429) with the seconds to wait when the limit is reached; a refused try is not counted."""
    wait = _decided(lambda limiter: _taken(limiter, rate, key))
    if wait is not None:
        raise too_many(wait)


def rate_check(rate: Rate, key: str) -> None:
    """Raise Problem(429) when the limit is reached, without counting."""
    wait = _decided(lambda limiter: _left(limiter, rate, key))
    if wait is not None:
        raise too_many(wait)


def rate_forget(rate: Rate, key: str) -> None:
    """Begin again at nothing."""
    _decided(lambda limiter: limiter.clear(rate.item, _digest(key)))


def too_many(seconds: int) -> Problem:
    """The refusal: 429 with Retry-After."""
    return Problem(
        429,
        "Too many requests",
        f"Wait {wait_text(seconds)}, then try again.",
        kind="too-many-requests",
        retry_after=seconds,
    )


def wait_text(seconds: int) -> str:
    """A waiting time in words: 45 seconds, 12 minutes."""
    if seconds < 90:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    return f"{math.ceil(seconds / 60)} minutes"


View = Callable[..., HttpResponseBase]


def limited(
    rate: Rate, *, key: Callable[[HttpRequest], str] = client_key, methods: tuple[str, ...] = ("POST",)
) -> Callable[[View], View]:
    """A page whose requests with `methods` count against `rate`, by client address unless `key` says otherwise."""

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
    """Keys hold addresses of people: the store sees a digest."""
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
