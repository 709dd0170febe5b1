"""The client of the Stripe API, and the meaning of each kind of failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import stripe

# The API version that the test double implements, so that the tested version is the one in use.
API_VERSION = "2026-05-27.dahlia"
TIMEOUT_SECONDS = 20
PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds, after each 429; the library does not retry those

T = TypeVar("T")


class OutcomeUnknown(Exception):
    """Raised if it is unknown whether a call took effect. The same call can be repeated with the same key."""


class KeyBroken(OutcomeUnknown):
    """Raised if the idempotency key is bound to a failure. Look up the effect, then use a new key."""


def client_make(*, api_key: str, base: str = "", timeout: float = TIMEOUT_SECONDS) -> stripe.StripeClient:
    """Return a Stripe client that does not retry. `base` is the URL of another server, such as a sandbox."""
    return stripe.StripeClient(
        api_key,
        stripe_version=API_VERSION,
        base_addresses={"api": base} if base else None,
        http_client=stripe.RequestsClient(timeout=timeout),
        max_network_retries=0,
    )


def call_with_retry(call: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """Make a call and return the response. Repeat the call after a 429.

    Raises OutcomeUnknown or KeyBroken if the outcome is unknown. Refusals by Stripe are passed on.
    """
    for pause in (*PAUSES, None):
        try:
            return call()
        except stripe.RateLimitError as error:
            if pause is None:
                raise OutcomeUnknown("Stripe's rate limit was reached") from error
            sleep(pause)
        except stripe.IdempotencyError as error:
            raise KeyBroken("the key belongs to another request") from error
        except stripe.APIConnectionError as error:
            raise OutcomeUnknown("Stripe did not respond") from error
        except stripe.APIError as error:
            if error.http_status == 409:
                raise OutcomeUnknown("the same call is under way") from error
            raise KeyBroken(f"Stripe failed with status {error.http_status}") from error
    raise AssertionError("the loop returns or raises")
