"""Every type of event that we know, and what it makes us look at; the others are recorded and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import stripe

from apps.billing.stripe.cards import customer_sync, session_sync
from apps.billing.stripe.returning import dispute_sync, refund_sync
from apps.billing.stripe.syncing import intent_sync, invoice_sync

Thing = dict[str, Any]
Look = Callable[[Thing, stripe.StripeClient, datetime], object]


def _invoice(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return invoice_sync(stripe_id=thing["id"], client=client, now=now)


def _of_invoice(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return invoice_sync(stripe_id=thing["invoice"], client=client, now=now)


def _intent(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return intent_sync(intent=thing["id"], client=client, now=now)


def _refund(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return refund_sync(refund_id=thing["id"], client=client, now=now)


def _dispute(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return dispute_sync(dispute_id=thing["id"], client=client, now=now)


def _session(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return session_sync(session_id=thing["id"], client=client, now=now)


def _customer(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    return customer_sync(customer_id=thing["id"], client=client)


def _of_customer(thing: Thing, client: stripe.StripeClient, now: datetime) -> object:
    """A card that is taken away names nobody any more: then Stripe says `customer.updated` as well."""
    return customer_sync(customer_id=thing["customer"], client=client) if thing.get("customer") else None


# None: recorded only. Whoever adds a type here says what it makes us fetch.
EVENTS: dict[str, Look | None] = {
    "checkout.session.completed": _session,
    "checkout.session.async_payment_succeeded": None,
    "checkout.session.async_payment_failed": None,
    "checkout.session.expired": None,
    "setup_intent.created": None,
    "setup_intent.succeeded": _of_customer,
    "setup_intent.setup_failed": None,
    "setup_intent.requires_action": None,
    "setup_intent.canceled": None,
    "payment_method.attached": _of_customer,
    "payment_method.detached": None,
    "payment_method.updated": _of_customer,
    "payment_method.automatically_updated": _of_customer,
    "customer.created": None,
    "customer.updated": _customer,
    "customer.deleted": _customer,
    "customer.tax_id.created": None,
    "customer.tax_id.updated": None,
    "customer.tax_id.deleted": None,
    "invoice.created": None,
    "invoice.updated": _invoice,
    "invoice.deleted": None,
    "invoice.sent": None,
    "invoice.finalized": _invoice,
    "invoice.finalization_failed": _invoice,
    "invoice.paid": _invoice,
    "invoice.payment_succeeded": _invoice,
    "invoice.payment_failed": _invoice,
    "invoice.payment_action_required": _invoice,
    "invoice.overdue": None,
    "invoice.voided": _invoice,
    "invoice.marked_uncollectible": _invoice,
    "payment_intent.created": None,
    "payment_intent.processing": None,
    "payment_intent.requires_action": _intent,
    "payment_intent.payment_failed": _intent,
    "payment_intent.succeeded": _intent,
    "payment_intent.canceled": _intent,
    "charge.refunded": None,
    "refund.created": _refund,
    "refund.updated": _refund,
    "refund.failed": _refund,
    "charge.dispute.created": _dispute,
    "charge.dispute.updated": _dispute,
    "charge.dispute.closed": _dispute,
    "charge.dispute.funds_withdrawn": _dispute,
    "charge.dispute.funds_reinstated": _dispute,
    "credit_note.created": _of_invoice,
    "credit_note.updated": _of_invoice,
    "credit_note.voided": _of_invoice,
}
