"""The steps that create one invoice at Stripe: draft, items, comparison of totals, finalisation.

The steps can be interrupted and repeated. This module writes nothing to our database.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import stripe

from apps.accounts.failpoints import failpoint
from apps.collection.amounts import minor_format
from apps.collection.gateway import KeyBroken, call_with_retry
from apps.collection.operations import Operation, OperationRunner, unrecorded_runner

INVOICE, LINE = "takt_invoice", "takt_line"  # metadata keys that identify our objects


class TotalDiffers(Exception):
    """Raised if the total at Stripe differs from ours. The draft is kept for a person to inspect."""


class DraftOutdated(KeyBroken):
    """Raised if the invoice in our database changed after its draft at Stripe was created."""


@dataclass(frozen=True)
class Item:
    """One line of an invoice. The amount is in the currency's smallest unit."""

    description: str
    amount: int


@dataclass(frozen=True)
class Order:
    """The invoice to create at Stripe.

    A new `version` gives new idempotency keys.
    """

    invoice_id: str
    number: str
    customer: str
    currency: str
    due_at: datetime
    total: int
    items: tuple[Item, ...]
    version: int = 1
    is_automatic: bool = False

    def key(self, step: str) -> str:
        """Return the idempotency key of a step. All attempts of one version use the same key."""
        return f"invoice:{self.invoice_id}:v{self.version}:{step}"


def invoice_push(client: stripe.StripeClient, order: Order, act: OperationRunner | None = None) -> stripe.Invoice:
    """Create and finalise the invoice, charge the card on file if there is one, and return the invoice.

    Safe to repeat. `act` runs the operations. Raises TotalDiffers, gateway.OutcomeUnknown or KeyBroken.
    """
    act = act or unrecorded_runner(client)
    found = invoice_find(client, customer=order.customer, invoice_id=order.invoice_id)
    final = invoice_finalise(client, order, found, act)
    return invoice_charge(client, order, final, act) if order.is_automatic else final


def invoice_finalise(
    client: stripe.StripeClient, order: Order, found: stripe.Invoice | None, act: OperationRunner
) -> stripe.Invoice:
    """Finalise the invoice and return it. `found` is the invoice of an earlier attempt, if any.

    Raises DraftOutdated, TotalDiffers, gateway.OutcomeUnknown or KeyBroken.
    """
    invoice = found or _create(order, act)
    if invoice.status == "draft":
        _items(client, order, invoice.id, act)
        invoice = call_with_retry(lambda: client.v1.invoices.retrieve(invoice.id))
    _compare(invoice, order)
    if invoice.status == "draft":
        invoice = act(Operation("invoice.finalize", order.key("finalize"), {"auto_advance": False}, invoice.id))
        failpoint("stripe.finalised")
    return invoice


def invoice_charge(
    client: stripe.StripeClient, order: Order, final: stripe.Invoice, act: OperationRunner
) -> stripe.Invoice:
    """Charge the card on file once. If the charge is declined, the invoice stays open."""
    if final.status != "open" or final.attempt_count:
        return final
    try:
        charged: stripe.Invoice = act(Operation("invoice.pay", order.key("pay"), {}, final.id))
    except (stripe.CardError, stripe.InvalidRequestError):  # declined; or meanwhile paid, or the card removed
        return call_with_retry(lambda: client.v1.invoices.retrieve(final.id))
    return charged


def invoice_find(client: stripe.StripeClient, *, customer: str, invoice_id: str) -> stripe.Invoice | None:
    """Return the invoice of an earlier attempt; None if there is none."""
    there = call_with_retry(
        lambda: list(client.v1.invoices.list({"customer": customer, "limit": 100}).auto_paging_iter())
    )
    return next((one for one in there if metadata_value(one, INVOICE) == invoice_id), None)


def _create(order: Order, act: OperationRunner) -> stripe.Invoice:
    given: Any = {
        "customer": order.customer,
        "currency": order.currency.lower(),
        "auto_advance": False,  # no finalisation before the totals are compared
        "description": f"Invoice {order.number}",
        "metadata": {INVOICE: order.invoice_id, "takt_number": order.number},
        "pending_invoice_items_behavior": "exclude",
        "collection_method": "charge_automatically" if order.is_automatic else "send_invoice",
    }
    if not order.is_automatic:
        given["due_date"] = int(order.due_at.timestamp())
    made: stripe.Invoice = act(Operation("invoice.create", order.key("create"), given))
    failpoint("stripe.draft")
    return made


def _items(client: stripe.StripeClient, order: Order, invoice: str, act: OperationRunner) -> None:
    known = call_with_retry(
        lambda: list(client.v1.invoice_items.list({"invoice": invoice, "limit": 100}).auto_paging_iter())
    )
    there = {name: one.amount for one in known if (name := metadata_value(one, LINE)) is not None}
    wanted = {str(number): item for number, item in enumerate(order.items, 1)}
    if any(name not in wanted or wanted[name].amount != amount for name, amount in there.items()):
        act(Operation("invoice.delete", order.key("delete"), {}, invoice))
        raise DraftOutdated(f"the draft {invoice} was about another amount")
    for name in (one for one in wanted if one not in there):
        given: dict[str, Any] = {
            "customer": order.customer,
            "invoice": invoice,
            "amount": wanted[name].amount,
            "currency": order.currency.lower(),
            "description": wanted[name].description[:500],
            "metadata": {INVOICE: order.invoice_id, LINE: name},
        }
        act(Operation("item.create", order.key(f"line:{name}"), given))
        failpoint("stripe.item")


def metadata_value(thing: Any, name: str) -> str | None:
    """Return the value of a metadata key; None if it is not set."""
    held = thing.metadata
    return str(held[name]) if held and name in held else None


def _compare(invoice: stripe.Invoice, order: Order) -> None:
    if (invoice.total, invoice.currency) != (order.total, order.currency.lower()):
        raise TotalDiffers(
            f"the total of invoice {order.number} is {minor_format(order.total, currency=order.currency)}, but the total of "
            f"Stripe's invoice {invoice.id} is {minor_format(invoice.total, currency=invoice.currency)}"
        )
