"""Brings one invoice to Stripe: items, draft, comparison of the totals, then finalised. Stores nothing of ours.

Every step looks at what Stripe has before it adds, so that it may be broken off anywhere and begun again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import stripe

from apps.accounts.failpoints import failpoint
from apps.billing.stripe.gateway import called

INVOICE, LINE = "takt_invoice", "takt_line"  # metadata by which what is ours is found again


class TotalDiffers(Exception):
    """Stripe sums to another total than we do: the draft is left as it is, for people to look at."""


@dataclass(frozen=True)
class Item:
    """One line in the currency's smallest unit."""

    description: str
    amount: int


@dataclass(frozen=True)
class Order:
    """What is to be collected. `version` rises when a key has remembered a failure, or when it is too old to be trusted."""

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
        """The idempotency key of a step: the same for ever."""
        return f"invoice:{self.invoice_id}:v{self.version}:{step}"


def invoice_push(client: stripe.StripeClient, order: Order) -> stripe.Invoice:
    """The finalised invoice, charged where a card is on file. Raises TotalDiffers, gateway.Uncertain or Broken; safe to
    repeat after each."""
    invoice = invoice_find(client, order) or _create(client, order)
    if invoice.status == "draft":
        _items(client, order, invoice.id)
        invoice = called(lambda: client.v1.invoices.retrieve(invoice.id))
    final = _compared(invoice, order)
    if final.status == "draft":
        final = _finalised(client, order, final)
    return _charged(client, order, final) if order.is_automatic else final


def _finalised(client: stripe.StripeClient, order: Order, draft: stripe.Invoice) -> stripe.Invoice:
    """Final, and left alone by Stripe: a charge of its own would come some time later and race with ours."""
    options: Any = {"idempotency_key": order.key("finalize")}
    final = called(lambda: client.v1.invoices.finalize_invoice(draft.id, {"auto_advance": False}, options))
    failpoint("stripe.finalised")
    return final


def _charged(client: stripe.StripeClient, order: Order, final: stripe.Invoice) -> stripe.Invoice:
    """The first charge of the card on file, once; one that declines leaves the invoice open, to be paid by hand."""
    if final.status != "open" or final.attempt_count:
        return final
    options: Any = {"idempotency_key": order.key("pay")}
    try:
        return called(lambda: client.v1.invoices.pay(final.id, {}, options))
    except (stripe.CardError, stripe.InvalidRequestError):  # declined; or paid, or the card taken away, in between
        return called(lambda: client.v1.invoices.retrieve(final.id))


def invoice_find(client: stripe.StripeClient, order: Order) -> stripe.Invoice | None:
    """The invoice that an earlier try made, found by its metadata in the customer's list (which is never behind)."""
    page = called(lambda: client.v1.invoices.list({"customer": order.customer, "limit": 100}))
    while True:
        for one in page.data:
            if _named(one, INVOICE) == order.invoice_id:
                return one
        if not page.has_more:
            return None
        last = page.data[-1].id
        page = called(
            lambda after=last: client.v1.invoices.list(  # type: ignore[misc]
                {"customer": order.customer, "limit": 100, "starting_after": after}
            )
        )


def _create(client: stripe.StripeClient, order: Order) -> stripe.Invoice:
    given: Any = {
        "customer": order.customer,
        "currency": order.currency.lower(),
        "auto_advance": False,  # nothing is finalised before the totals are compared
        "description": f"Invoice {order.number}",
        "metadata": {INVOICE: order.invoice_id, "takt_number": order.number},
        "pending_invoice_items_behavior": "exclude",
        "collection_method": "charge_automatically" if order.is_automatic else "send_invoice",
    }
    if not order.is_automatic:
        given["due_date"] = int(order.due_at.timestamp())
    options: Any = {"idempotency_key": order.key("create")}
    made = called(lambda: client.v1.invoices.create(given, options))
    failpoint("stripe.draft")
    return made


def _items(client: stripe.StripeClient, order: Order, invoice: str) -> None:
    known = called(lambda: list(client.v1.invoice_items.list({"invoice": invoice, "limit": 100}).auto_paging_iter()))
    there = {_named(one, LINE) for one in known}
    for number, item in enumerate(order.items, 1):
        if str(number) in there:
            continue
        given: Any = {
            "customer": order.customer, "invoice": invoice, "amount": item.amount, "currency": order.currency.lower(),
            "description": item.description[:500], "metadata": {INVOICE: order.invoice_id, LINE: str(number)},
        }  # fmt: skip
        options: Any = {"idempotency_key": order.key(f"line:{number}")}
        called(lambda given=given, options=options: client.v1.invoice_items.create(given, options))  # type: ignore[misc]
        failpoint("stripe.item")


def _named(thing: Any, name: str) -> str | None:
    held = thing.metadata
    return str(held[name]) if held and name in held else None


def _compared(invoice: stripe.Invoice, order: Order) -> stripe.Invoice:
    if (invoice.total, invoice.currency) != (order.total, order.currency.lower()):
        raise TotalDiffers(
            f"invoice {order.number} is {order.total} {order.currency} in smallest units, Stripe's {invoice.id} is "
            f"{invoice.total} {invoice.currency.upper()}"
        )
    return invoice
