"""A client of the double without a network between them: every request may be lost, fail, or be its caller's last."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import stripe

from apps.collection.gateway import API_VERSION
from tests.stripe.double.server import answered
from tests.stripe.double.store import Fault, Store

FATES = ("429", "500", "500-after", "timeout", "timeout-after", "died", "died-after")
BASE = "https://stripe.invalid"


class Died(BaseException):
    """The process ended here, as `kill -9` ends it: nothing catches it, and what was not committed is gone."""


class Direct(stripe.HTTPClient):
    """Hands requests to the double. `fate` says of each what becomes of it: nothing (empty), or one of FATES."""

    name = "direct"

    def __init__(self, store: Store, fate: Callable[[str, str], str]) -> None:
        super().__init__()
        self.store, self.fate = store, fate

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None
    ) -> tuple[str, int, Mapping[str, str]]:
        """What the double answers. Raises Died, or stripe.APIConnectionError for an answer that is lost."""
        parts, method = urlsplit(url), method.upper()
        fate = self.fate(method, parts.path)
        if fate == "died":
            raise Died(f"before {method} {parts.path}")
        self.store.faults = [Fault(method, parts.path, fate)] if fate not in {"", "died-after"} else []
        named = {name.lower(): value for name, value in (headers or {}).items()}
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        answer = answered(self.store, method, target, post_data or "", named)
        self.store.faults = []
        if fate == "died-after":
            raise Died(f"after {method} {parts.path}")
        if answer is None:
            raise stripe.APIConnectionError("The answer is lost.")
        return json.dumps(answer.body), answer.status, {}


def direct_client(store: Store, fate: Callable[[str, str], str]) -> stripe.StripeClient:
    """The client that the product would have, with this between it and Stripe."""
    return stripe.StripeClient(
        "sk_test_double",
        stripe_version=API_VERSION,
        base_addresses={"api": BASE},
        http_client=Direct(store, fate),
        max_network_retries=0,
    )
