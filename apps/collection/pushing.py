"""Brings one invoice to Stripe: items, draft, comparison of the totals, then finalised. Stores nothing of ours.

Every step looks at what Stripe has before it adds, so that it may be broken off anywhere and begun again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import stripe

from apps.accounts.failpoints import failpoint
from apps.collection.acting import Act, Acting, plain
from apps.collection.gateway import Broken, called

INVOICE, LINE = "takt_invoice", "takt_line"  # metadata by which what is ours is found again


class TotalDiffers(Exception):
    """Stripe sums to another total than we do: the draft is left as it is, for people to look at."""


class Stale(Broken):
    """The draft at Stripe was about another amount, since the invoice changed here: it is deleted, and made anew."""


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


def invoice_push(client: stripe.StripeClient, order: Order, act: Acting | None = None) -> stripe.Invoice:
    """The finalised invoice, charged where a card is on file. Raises TotalDiffers, gateway.Uncertain or Broken; safe to
    repeat after each. `act` carries out what changes something there."""
    act = act or plain(client)
    found = invoice_find(client, customer=order.customer, invoice_id=order.invoice_id)
    final = invoice_finalise(client, order, found, act)
    return invoice_charge(client, order, final, act) if order.is_automatic else final


def invoice_finalise(
    client: stripe.StripeClient, order: Order, found: stripe.Invoice | None, act: Acting
) -> stripe.Invoice:
    """Final, and left alone by Stripe: a charge of its own would come some time later and race with ours. `found` is what an
    earlier try made. Raises Stale, TotalDiffers, gateway.Uncertain or Broken."""
    invoice = found or _create(order, act)
    if invoice.status == "draft":
        _items(client, order, invoice.id, act)
        invoice = called(lambda: client.v1.invoices.retrieve(invoice.id))
    _compare(invoice, order)
    if invoice.status == "draft":
        invoice = act(Act("invoice.finalize", order.key("finalize"), {"auto_advance": False}, invoice.id))
        failpoint("stripe.finalised")
    return invoice


def invoice_charge(client: stripe.StripeClient, order: Order, final: stripe.Invoice, act: Acting) -> stripe.Invoice:
    """The first charge of the card on file, once; one that declines leaves the invoice open, to be paid by hand."""
    if final.status != "open" or final.attempt_count:
        return final
    try:
        charged: stripe.Invoice = act(Act("invoice.pay", order.key("pay"), {}, final.id))
    except (stripe.CardError, stripe.InvalidRequestError):  # declined; or paid, or the card taken away, in between
        return called(lambda: client.v1.invoices.retrieve(final.id))
    return charged


def invoice_find(client: stripe.StripeClient, *, customer: str, invoice_id: str) -> stripe.Invoice | None:
    """The invoice that an earlier try made, found by its metadata in the customer's list (which is never behind)."""
    there = called(lambda: list(client.v1.invoices.list({"customer": customer, "limit": 100}).auto_paging_iter()))
    return next((one for one in there if named(one, INVOICE) == invoice_id), None)


def _create(order: Order, act: Acting) -> stripe.Invoice:
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
    made: stripe.Invoice = act(Act("invoice.create", order.key("create"), given))
    failpoint("stripe.draft")
    return made


def _items(client: stripe.StripeClient, order: Order, invoice: str, act: Acting) -> None:
    known = called(lambda: list(client.v1.invoice_items.list({"invoice": invoice, "limit": 100}).auto_paging_iter()))
    there = {name: one.amount for one in known if (name := named(one, LINE)) is not None}
    wanted = {str(number): item for number, item in enumerate(order.items, 1)}
    if any(name not in wanted or wanted[name].amount != amount for name, amount in there.items()):
        act(Act("invoice.delete", order.key("delete"), {}, invoice))
        raise Stale(f"the draft {invoice} was about another amount")
    for name in (one for one in wanted if one not in there):
        given: dict[str, Any] = {
            "customer": order.customer,
            "invoice": invoice,
            "amount": wanted[name].amount,
            "currency": order.currency.lower(),
            "description": wanted[name].description[:500],
            "metadata": {INVOICE: order.invoice_id, LINE: name},
        }
        act(Act("item.create", order.key(f"line:{name}"), given))
        failpoint("stripe.item")


def named(thing: Any, name: str) -> str | None:
    """What an object's metadata says under a name; None where they say nothing."""
    held = thing.metadata
    return str(held[name]) if held and name in held else None


def _compare(invoice: stripe.Invoice, order: Order) -> None:
    if (invoice.total, invoice.currency) != (order.total, order.currency.lower()):
        raise TotalDiffers(
            f"invoice {order.number} is {order.total} {order.currency} in smallest units, Stripe's {invoice.id} is "
            f"{invoice.total} {invoice.currency.upper()}"
        )
