"""The event types that we handle, and the object to fetch for each type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import stripe

from apps.collection.cards import customer_sync, session_sync
from apps.collection.pull import intent_sync, invoice_sync
from apps.collection.refunds import dispute_sync, refund_sync

Fetch = Callable[[str, stripe.StripeClient, datetime], object]


class EventHandler(NamedTuple):
    """How to handle an event type. `fetch` is called with the id in `field` of the event's object."""

    field: str
    fetch: Fetch


def _invoice(name: str, client: stripe.StripeClient, now: datetime) -> object:
    return invoice_sync(stripe_id=name, client=client, now=now)


def _intent(name: str, client: stripe.StripeClient, now: datetime) -> object:
    return intent_sync(intent=name, client=client, now=now)


def _refund(name: str, client: stripe.StripeClient, now: datetime) -> object:
    return refund_sync(refund_id=name, client=client, now=now)


def _dispute(name: str, client: stripe.StripeClient, now: datetime) -> object:
    return dispute_sync(dispute_id=name, client=client, now=now)


def _session(name: str, client: stripe.StripeClient, now: datetime) -> object:
    return session_sync(session_id=name, client=client, now=now)


def _customer(name: str, client: stripe.StripeClient, now: datetime) -> object:
    return customer_sync(customer_id=name, client=client)


INVOICE, OF_INVOICE, INTENT = (
    EventHandler("id", _invoice),
    EventHandler("invoice", _invoice),
    EventHandler("id", _intent),
)
REFUND, DISPUTE, SESSION = EventHandler("id", _refund), EventHandler("id", _dispute), EventHandler("id", _session)
CUSTOMER = EventHandler("id", _customer)
# A detached card has no customer any more; Stripe sends `customer.updated` as well.
OF_CUSTOMER = EventHandler("customer", _customer)

# None: recorded only.
EVENTS: dict[str, EventHandler | None] = {
    "checkout.session.completed": SESSION,
    "checkout.session.async_payment_succeeded": None,
    "checkout.session.async_payment_failed": None,
    "checkout.session.expired": None,
    "setup_intent.created": None,
    "setup_intent.succeeded": OF_CUSTOMER,
    "setup_intent.setup_failed": None,
    "setup_intent.requires_action": None,
    "setup_intent.canceled": None,
    "payment_method.attached": OF_CUSTOMER,
    "payment_method.detached": None,
    "payment_method.updated": OF_CUSTOMER,
    "payment_method.automatically_updated": OF_CUSTOMER,
    "customer.created": None,
    "customer.updated": CUSTOMER,
    "customer.deleted": CUSTOMER,
    "customer.tax_id.created": None,
    "customer.tax_id.updated": None,
    "customer.tax_id.deleted": None,
    "invoice.created": None,
    "invoice.updated": INVOICE,
    "invoice.deleted": None,
    "invoice.sent": None,
    "invoice.finalized": INVOICE,
    "invoice.finalization_failed": INVOICE,
    "invoice.paid": INVOICE,
    "invoice.payment_succeeded": INVOICE,
    "invoice.payment_failed": INVOICE,
    "invoice.payment_action_required": INVOICE,
    "invoice.overdue": None,
    "invoice.voided": INVOICE,
    "invoice.marked_uncollectible": INVOICE,
    "payment_intent.created": None,
    "payment_intent.processing": None,
    "payment_intent.requires_action": INTENT,
    "payment_intent.payment_failed": INTENT,
    "payment_intent.succeeded": INTENT,
    "payment_intent.canceled": INTENT,
    "charge.refunded": None,
    "refund.created": REFUND,
    "refund.updated": REFUND,
    "refund.failed": REFUND,
    "charge.dispute.created": DISPUTE,
    "charge.dispute.updated": DISPUTE,
    "charge.dispute.closed": DISPUTE,
    "charge.dispute.funds_withdrawn": DISPUTE,
    "charge.dispute.funds_reinstated": DISPUTE,
    "credit_note.created": OF_INVOICE,
    "credit_note.updated": OF_INVOICE,
    "credit_note.voided": OF_INVOICE,
}
