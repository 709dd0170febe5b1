"""The client of the Stripe API, and what each kind of failure means."""

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
    """Raised if it is unknown whether a call took effect. Repeating the call with the same key reveals the outcome."""


class KeyBroken(OutcomeUnknown):
    """Raised if the idempotency key is bound to a failure. Look up the effect, then use a key of the next version."""


def client_make(*, api_key: str, base: str = "", timeout: float = TIMEOUT_SECONDS) -> stripe.StripeClient:
    """Create a client for an API key. The client does not retry. `base` is the address of another server, such as a
    sandbox.
    """
    return stripe.StripeClient(
        api_key,
        stripe_version=API_VERSION,
        base_addresses={"api": base} if base else None,
        http_client=stripe.RequestsClient(timeout=timeout),
        max_network_retries=0,
    )


def call_with_retry(call: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """Make a call and return its response. After a 429, wait and try again.

    Raises OutcomeUnknown or KeyBroken if the outcome is unknown. A refusal (stripe.CardError,
    stripe.InvalidRequestError and others) is a known outcome; its exception is passed on.
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
