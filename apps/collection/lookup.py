"""Looks up whether a call without a response took effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import stripe

from apps.collection.gateway import call_with_retry
from apps.collection.models import StripeCall
from apps.collection.push_steps import INVOICE, LINE, metadata_value

ORGANISATION = "takt_organisation"  # metadata key that identifies our customers
EARLIER = timedelta(hours=1)  # tolerance between Stripe's clock and ours


def effect_find(call: StripeCall, client: stripe.StripeClient) -> str | None:
    """Return the id of the object that a call created or changed; None if the call had no effect.

    Raises gateway.OutcomeUnknown.
    """
    return _LOOKUPS[call.operation](call, client)


def list_all(service: Any, given: dict[str, Any]) -> list[Any]:
    """Return all objects of one of Stripe's lists. Raises gateway.OutcomeUnknown."""
    return call_with_retry(lambda: list(service.list({"limit": 100, **given}).auto_paging_iter()))


def invoice_retrieve(client: stripe.StripeClient, stripe_id: str) -> stripe.Invoice | None:
    """Return the invoice with this id; None if it no longer exists."""
    try:
        return call_with_retry(lambda: client.v1.invoices.retrieve(stripe_id))
    except stripe.InvalidRequestError as refusal:
        if refusal.http_status != 404:
            raise
        return None


def _first(things: Iterable[Any], fits: Callable[[Any], bool]) -> str | None:
    return next((str(one.id) for one in things if fits(one)), None)


def _customer(call: StripeCall, client: stripe.StripeClient) -> str | None:
    since, ours = int((call.made_at - EARLIER).timestamp()), str(call.organisation_id)
    made = list_all(client.v1.customers, {"created": {"gte": since}})
    return _first(made, lambda one: metadata_value(one, ORGANISATION) == ours)


def _draft(call: StripeCall, client: stripe.StripeClient) -> str | None:
    there = list_all(client.v1.invoices, {"customer": call.parameters["customer"]})
    return _first(there, lambda one: metadata_value(one, INVOICE) == str(call.invoice_id))


def _item(call: StripeCall, client: stripe.StripeClient) -> str | None:
    if invoice_retrieve(client, call.parameters["invoice"]) is None:
        return None
    there, line = (
        list_all(client.v1.invoice_items, {"invoice": call.parameters["invoice"]}),
        call.parameters["metadata"][LINE],
    )
    return _first(there, lambda one: metadata_value(one, LINE) == line)


def _note(call: StripeCall, client: stripe.StripeClient) -> str | None:
    known = set(
        StripeCall.objects.filter(invoice=call.invoice_id).exclude(object_id="").values_list("object_id", flat=True)
    )
    there, wanted = (
        list_all(client.v1.credit_notes, {"invoice": call.parameters["invoice"]}),
        call.parameters["metadata"],
    )
    return _first(
        there, lambda one: one.id not in known and all(metadata_value(one, name) == wanted[name] for name in wanted)
    )


def _moved(
    is_done: Callable[[StripeCall, stripe.Invoice | None], bool],
) -> Callable[[StripeCall, stripe.StripeClient], str | None]:
    return lambda call, client: call.target if is_done(call, invoice_retrieve(client, call.target)) else None


def _is_paid(call: StripeCall, there: stripe.Invoice | None) -> bool:
    is_charge = not call.parameters.get("paid_out_of_band")
    return there is not None and (there.status == "paid" or (is_charge and bool(there.attempt_count)))


_LOOKUPS: dict[str, Callable[[StripeCall, stripe.StripeClient], str | None]] = {
    "customer.create": _customer,
    "invoice.create": _draft,
    "item.create": _item,
    "note.create": _note,
    "invoice.finalize": _moved(lambda _, there: there is not None and there.status != "draft"),
    "invoice.pay": _moved(_is_paid),
    "invoice.void": _moved(lambda _, there: there is not None and there.status == "void"),
    "invoice.uncollectible": _moved(lambda _, there: there is not None and there.status in {"uncollectible", "paid"}),
    "invoice.delete": _moved(lambda _, there: there is None),
}
