"""What the double remembers: objects, events, keys, the clock, and the outages that are planned."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from tests.stripe.double.description import version
from tests.stripe.double.errors import missing

Thing = dict[str, Any]
KEY_SECONDS = 24 * 3600


@dataclass
class Fault:
    """An outage: the next `times` requests that fit answer so. Kinds: 429, 500, 500-after, timeout, timeout-after."""

    method: str
    path: str
    kind: str
    times: int = 1

    def fits(self, method: str, path: str) -> bool:
        """True while it still applies to such a request."""
        return self.times > 0 and self.method == method and fnmatch(path, self.path)


@dataclass
class Saved:
    """What an idempotency key stands for."""

    request: str
    status: int
    body: Thing
    at: int


@dataclass
class Store:
    """All state. Every request runs under the lock."""

    prefix: str = ""
    base: str = ""  # its own address, of which the hosted pages' are made
    lock: threading.RLock = field(default_factory=threading.RLock)
    offset: int = 0
    count: int = 0
    objects: dict[str, Thing] = field(default_factory=dict)
    events: list[Thing] = field(default_factory=list)
    keys: dict[str, Saved] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    meters: dict[str, Thing] = field(default_factory=dict)
    clock: Callable[[], float] = time.time

    def now(self) -> int:
        """Seconds since 1970 by the double's clock, which may be set forward."""
        return int(self.clock()) + self.offset

    def add(self, prefix: str, thing: Thing) -> Thing:
        """Give an object its id and keep it."""
        self.count += 1
        thing["id"] = f"{prefix}_{self.prefix}{self.count:08d}"
        self.objects[thing["id"]] = thing
        return thing

    def get(self, kind: str, name: str) -> Thing:
        """The object of that kind and id. Raises Refused (404)."""
        found = self.objects.get(name)
        if found is None or found["object"] != kind:
            raise missing(kind, name)
        return found

    def all(self, kind: str) -> list[Thing]:
        """Every object of a kind, the newest first."""
        return [one for one in reversed(list(self.objects.values())) if one["object"] == kind]

    def tell(self, kind: str, thing: Thing) -> None:
        """Write an event with the object as it is now."""
        event = {
            "object": "event",
            "api_version": version(),
            "created": self.now(),
            "livemode": False,
            "pending_webhooks": 0,
            "type": kind,
            "data": {"object": copy.deepcopy(thing)},
            "request": {"id": None, "idempotency_key": None},
        }
        self.events.append(self.add("evt", event))

    def fault_for(self, method: str, path: str) -> str:
        """The kind of the outage that this request meets; empty when it meets none."""
        for fault in self.faults:
            if fault.fits(method, path):
                fault.times -= 1
                return fault.kind
        return ""

    def saved(self, key: str) -> Saved | None:
        """What the key stands for, as long as it is remembered."""
        found = self.keys.get(key)
        return found if found is not None and self.now() - found.at < KEY_SECONDS else None
