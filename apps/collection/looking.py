"""Looks at what Stripe has, to say whether a call of which nobody heard has acted. Lists of Stripe's are never behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import stripe

from apps.collection.gateway import called
from apps.collection.models import StripeCall
from apps.collection.pushing import INVOICE, LINE, named

ORGANISATION = "takt_organisation"  # metadata by which a customer of ours is found again
EARLIER = timedelta(hours=1)  # Stripe's clock and ours may differ


def found_at_stripe(call: StripeCall, client: stripe.StripeClient) -> str | None:
    """The id of what a call made or changed; None where it did not act. Raises gateway.Uncertain."""
    return _LOOKS[call.operation](call, client)


def listed(service: Any, given: dict[str, Any]) -> list[Any]:
    """Everything that a list of Stripe's holds. Raises gateway.Uncertain."""
    return called(lambda: list(service.list({"limit": 100, **given}).auto_paging_iter()))


def retrieved(client: stripe.StripeClient, stripe_id: str) -> stripe.Invoice | None:
    """The invoice of that id; None where there is none any more."""
    try:
        return called(lambda: client.v1.invoices.retrieve(stripe_id))
    except stripe.InvalidRequestError as refusal:
        if refusal.http_status != 404:
            raise
        return None


def _first(things: Iterable[Any], fits: Callable[[Any], bool]) -> str | None:
    return next((str(one.id) for one in things if fits(one)), None)


def _customer(call: StripeCall, client: stripe.StripeClient) -> str | None:
    since, ours = int((call.made_at - EARLIER).timestamp()), str(call.organisation_id)
    made = listed(client.v1.customers, {"created": {"gte": since}})
    return _first(made, lambda one: named(one, ORGANISATION) == ours)


def _draft(call: StripeCall, client: stripe.StripeClient) -> str | None:
    there = listed(client.v1.invoices, {"customer": call.parameters["customer"]})
    return _first(there, lambda one: named(one, INVOICE) == str(call.invoice_id))


def _item(call: StripeCall, client: stripe.StripeClient) -> str | None:
    if retrieved(client, call.parameters["invoice"]) is None:
        return None
    there, line = (
        listed(client.v1.invoice_items, {"invoice": call.parameters["invoice"]}),
        call.parameters["metadata"][LINE],
    )
    return _first(there, lambda one: named(one, LINE) == line)


def _note(call: StripeCall, client: stripe.StripeClient) -> str | None:
    """A note that an earlier call made is not this call's."""
    known = set(
        StripeCall.objects.filter(invoice=call.invoice_id).exclude(object_id="").values_list("object_id", flat=True)
    )
    there, wanted = listed(client.v1.credit_notes, {"invoice": call.parameters["invoice"]}), call.parameters["metadata"]
    return _first(there, lambda one: one.id not in known and all(named(one, name) == wanted[name] for name in wanted))


def _moved(
    is_done: Callable[[StripeCall, stripe.Invoice | None], bool],
) -> Callable[[StripeCall, stripe.StripeClient], str | None]:
    return lambda call, client: call.target if is_done(call, retrieved(client, call.target)) else None


def _is_paid(call: StripeCall, there: stripe.Invoice | None) -> bool:
    is_charge = not call.parameters.get("paid_out_of_band")
    return there is not None and (there.status == "paid" or (is_charge and bool(there.attempt_count)))


_LOOKS: dict[str, Callable[[StripeCall, stripe.StripeClient], str | None]] = {
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
