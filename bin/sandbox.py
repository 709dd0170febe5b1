"""`TAKT_STRIPE=sandbox make run`: the tests' double plays Stripe, so that payments can be tried without a key."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass

from bin.commands import VAR
from bin.services import ServiceError

CHOICE = "TAKT_STRIPE"


@dataclass(frozen=True)
class Sandbox:
    """The port of the sandbox, and the secret with which it signs."""

    port: int
    secret: str

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        """Return the settings that our processes need."""
        return {
            "STRIPE_API_KEY": "sk_test_sandbox",
            "STRIPE_API_BASE": self.url,
            "STRIPE_WEBHOOK_SECRET": self.secret,
        }

    def command(self, site: str) -> list[str]:
        """Return its command; its events go to the web process directly, whatever address people use."""
        return [
            sys.executable,
            "-m",
            "tests.stripe.double",
            "--port",
            str(self.port),
            "--webhook",
            f"{site}/stripe/webhook",
            "--secret",
            self.secret,
            "--state",
            str(VAR / "stripe-sandbox.json"),
        ]


def sandbox_wanted(env: dict[str, str], *, port: int) -> Sandbox | None:
    """Return the sandbox that the environment asks for, on the port after the web's, or None.

    Raises ServiceError for an unknown value, or if a Stripe key is set too.
    """
    wanted = env.get(CHOICE, "")
    if not wanted:
        return None
    if wanted != "sandbox":
        raise ServiceError(f"{CHOICE} can be sandbox, or not be set; it is {wanted!r}.")
    if env.get("STRIPE_API_KEY"):
        raise ServiceError(f"Set {CHOICE}=sandbox or STRIPE_API_KEY, not both: a key is for Stripe itself.")
    text = os.environ.get("STRIPE_SANDBOX_PORT", str(port + 1))
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ServiceError(f"STRIPE_SANDBOX_PORT must be a number from 1 to 65535; it is {text!r}.")
    return Sandbox(int(text), f"whsec_{secrets.token_hex(16)}")
