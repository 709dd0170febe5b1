"""Delivers events to the endpoint: signed, over HTTP, and, when told so, twice, late or in another order."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from urllib.error import URLError

from tests.stripe.double.store import Store, Thing

POLL_SECONDS = 0.02
PATIENT_SECONDS = 20
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # Stripe goes on for three days


def signature(body: str, *, secret: str, at: int) -> str:
    """The header `Stripe-Signature` of a body."""
    signed = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


@dataclass
class Manner:
    """How events are delivered: `copies` of each, `delay` seconds late, the newest first; `is_held` keeps them back."""

    copies: int = 1
    delay: float = 0.0
    is_reversed: bool = False
    is_held: bool = False


@dataclass
class Deliverer:
    """A thread that delivers what the store tells."""

    store: Store
    url: str
    secret: str
    manner: Manner = field(default_factory=Manner)
    done: int = 0  # events of the store that were delivered, or given up
    refused: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> threading.Thread:
        """Begin; `end` ends it."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        return thread

    def end(self) -> None:
        """Deliver nothing more."""
        self._ended.set()

    def wait(self, seconds: float = PATIENT_SECONDS) -> None:
        """Until all that was told is delivered. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while self.done < len(self.store.events):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{len(self.store.events) - self.done} events are not delivered: {self.refused[-3:]}"
                )
            time.sleep(POLL_SECONDS)

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with self.store.lock:
                batch = [] if self.manner.is_held else list(self.store.events[self.done :])
            if not batch:
                continue
            self._ended.wait(self.manner.delay)
            for event in reversed(batch) if self.manner.is_reversed else batch:
                for _ in range(self.manner.copies):
                    self._deliver(event)
            self.done += len(batch)

    def _deliver(self, event: Thing) -> None:
        body = json.dumps(event)
        for pause in (*RETRY_SECONDS, None):
            why = self._post(body)
            if not why:
                return
            self.refused.append(f"{event['type']}: {why}")
            if pause is None or self._ended.wait(pause):
                return

    def _post(self, body: str) -> str:
        """Why the endpoint did not take it; empty when it did."""
        headers = {
            "Content-Type": "application/json",
            "Stripe-Signature": signature(body, secret=self.secret, at=int(time.time())),
        }
        request = urllib.request.Request(self.url, body.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENT_SECONDS):
                return ""
        except (URLError, OSError) as error:
            return str(error)
