"""Many sessions, each with one request every few seconds, from a fixed mix of pages and API lists."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

EVERY = 5.0  # seconds between a session's requests
WARM = 3  # times that each address is asked for before
# Address and how often it comes, in the shares of a member's day: looking far more often than changing.
MIX = (
    ("/", 4),
    ("/portal", 4),
    ("/contracts", 4),
    ("/contracts/{contracts}", 3),
    ("/jobs", 4),
    ("/jobs/{jobs}", 4),
    ("/jobs/new", 2),
    ("/quotes", 2),
    ("/quotes/{quotes}", 2),
    ("/models", 2),
    ("/plans", 1),
    ("/invoices", 2),
    ("/invoices/{invoices}", 2),
    ("/invoices/draft", 1),
    ("/portal/usage", 2),
    ("/portal/caps", 1),
    ("/portal/budgets", 1),
    ("/portal/ledger", 1),
    ("/commitments", 1),
    ("/prices", 1),
    ("/settings/organisation", 1),
    ("/api/v1/contracts", 2),
    ("/api/v1/contracts/{contracts}", 1),
    ("/api/v1/jobs", 2),
    ("/api/v1/jobs/{jobs}", 2),
    ("/api/v1/usage", 2),
    ("/api/v1/quotes", 1),
    ("/api/v1/invoices", 1),
)


@dataclass
class Found:
    """Milliseconds of every request, and the answers that were no success."""

    by_name: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def all(self) -> list[float]:
        """Of every address."""
        return [one for taken in self.by_name.values() for one in taken]


def percentile(taken: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(taken)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def run(address: str, *, sessions: int, seconds: int) -> Found:
    """Sessions of one member, evenly spread over the interval; a request that is late does not delay the next one. Each
    address is asked for a few times before, and those times are not counted."""
    from apps.config.wsgi import application  # noqa: F401 - the settings are loaded, as in the web server
    from benchmarks.pages import objects, the_cast

    cast = the_cast()
    known, cookies = objects(cast), [_cookie(cast.owner) for _ in range(sessions)]
    for name, _ in MIX * WARM:  # what is imported and compiled at the first use, in every process of the server
        _get(address, name.format(**known), cookies[0])
    found, began = Found(), time.monotonic() + 1
    crew = [
        threading.Thread(target=_session, args=(address, cookie, known, number, sessions, began, seconds, found))
        for number, cookie in enumerate(cookies)
    ]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    return found


def _cookie(user: Any) -> str:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def _session(
    address: str,
    cookie: str,
    known: dict[str, Any],
    number: int,
    sessions: int,
    began: float,
    seconds: int,
    found: Found,
) -> None:
    names, shares = zip(*MIX, strict=True)
    chance = random.Random(number)
    at = began + EVERY * number / sessions
    while at < began + seconds:
        time.sleep(max(0.0, at - time.monotonic()))
        name = chance.choices(names, shares)[0]
        started = time.monotonic()
        status = _get(address, name.format(**known), cookie)
        found.by_name[name].append((time.monotonic() - started) * 1000)
        if status >= 300:
            found.failed[status] += 1
        at += EVERY


def _get(address: str, path: str, cookie: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except OSError:
        return 599
    finally:
        connection.close()
