"""Calls that change something at Stripe, stored as data so that they can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import stripe

from apps.collection.gateway import call_with_retry


@dataclass(frozen=True)
class Operation:
    """One call: the operation, its idempotency key, its parameters, and the object to change."""

    operation: str
    key: str
    given: dict[str, Any]
    target: str = ""


OperationRunner = Callable[[Operation], Any]  # runs an operation; returns Stripe's answer

# Operation: (service of the library, function, whether it changes an existing object).
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


def operation_run(client: stripe.StripeClient, act: Operation) -> Any:
    """Run an operation and return Stripe's response.

    Raises gateway.OutcomeUnknown or KeyBroken if the outcome is unknown.
    """
    service, function, has_target = OPERATIONS[act.operation]
    call = getattr(getattr(client.v1, service), function)
    names = (act.target,) if has_target else ()
    return call_with_retry(lambda: call(*names, _order_store(act.given), {"idempotency_key": act.key}))


def unrecorded_runner(client: stripe.StripeClient) -> OperationRunner:
    """Return a runner that does not record the calls."""
    return lambda act: operation_run(client, act)


def _order_store(given: Any) -> Any:
    return {name: _order_store(given[name]) for name in sorted(given)} if isinstance(given, dict) else given
