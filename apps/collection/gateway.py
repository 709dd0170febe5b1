"""How the API is called: one client, and what each kind of failure means for the caller."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import stripe

# The version whose description the tests' double follows: what was tested is what is sent.
API_VERSION = "2026-05-27.dahlia"
TIMEOUT_SECONDS = 20
PAUSES = (0.5, 1.0, 2.0, 4.0)  # after each 429; the library itself does not try those again

T = TypeVar("T")


class Uncertain(Exception):
    """Nobody knows whether the call acted. The same key asks again."""


class Broken(Uncertain):
    """The key remembers a failure: look what is there, then ask with a key of the next version."""


def client_make(*, api_key: str, base: str = "", timeout: float = TIMEOUT_SECONDS) -> stripe.StripeClient:
    """A client for a key; `base` names another server (a sandbox). It tries nothing again by itself."""
    return stripe.StripeClient(
        api_key,
        stripe_version=API_VERSION,
        base_addresses={"api": base} if base else None,
        http_client=stripe.RequestsClient(timeout=timeout),
        max_network_retries=0,
    )


def called(call: Callable[[], T], *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The call's answer. Waits out 429; raises Uncertain or Broken where the outcome is not known.

    Refusals (stripe.CardError, stripe.InvalidRequestError and so on) pass: they are answers.
    """
    for pause in (*PAUSES, None):
        try:
            return call()
        except stripe.RateLimitError as error:
            if pause is None:
                raise Uncertain("Stripe asks to slow down") from error
            sleep(pause)
        except stripe.IdempotencyError as error:
            raise Broken("the key stands for another request") from error
        except stripe.APIConnectionError as error:
            raise Uncertain("Stripe did not answer") from error
        except stripe.APIError as error:
            if error.http_status == 409:
                raise Uncertain("the same call is under way") from error
            raise Broken(f"Stripe failed with status {error.http_status}") from error
    raise AssertionError("the loop returns or raises")
