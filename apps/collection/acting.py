"""The calls that change something at Stripe, as data: what is recorded before one is made can be made again from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import stripe

from apps.collection.gateway import called


@dataclass(frozen=True)
class Act:
    """One call: its operation of the table below, the object that it is about, its parameters, its idempotency key."""

    operation: str
    key: str
    given: dict[str, Any]
    target: str = ""


Acting = Callable[[Act], Any]  # carries an act out; returns Stripe's answer

# Which function of the library carries an operation out, and whether it is about an object that is there.
OPERATIONS: dict[str, tuple[str, str, bool]] = {
    "customer.create": ("customers", "create", False),
    "invoice.create": ("invoices", "create", False),
    "item.create": ("invoice_items", "create", False),
    "note.create": ("credit_notes", "create", False),
    "invoice.finalize": ("invoices", "finalize_invoice", True),
    "invoice.pay": ("invoices", "pay", True),
    "invoice.void": ("invoices", "void_invoice", True),
    "invoice.uncollectible": ("invoices", "mark_uncollectible", True),
    "invoice.delete": ("invoices", "delete", True),
}


def perform(client: stripe.StripeClient, act: Act) -> Any:
    """Stripe's answer. Parameters are sent in the order of their names: a key stands for the very same request. Raises
    gateway.Uncertain or Broken where the outcome is not known."""
    service, function, has_target = OPERATIONS[act.operation]
    call = getattr(getattr(client.v1, service), function)
    names = (act.target,) if has_target else ()
    return called(lambda: call(*names, _ordered(act.given), {"idempotency_key": act.key}))


def plain(client: stripe.StripeClient) -> Acting:
    """Carries acts out and records nothing."""
    return lambda act: perform(client, act)


def _ordered(given: Any) -> Any:
    return {name: _ordered(given[name]) for name in sorted(given)} if isinstance(given, dict) else given
