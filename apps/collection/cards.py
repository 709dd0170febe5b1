"""Opens the Stripe pages on which customers enter cards, and stores the results."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import stripe
from django.conf import settings
from django.db import transaction
from stripe.checkout import Session

from apps.accounts.models import Organisation
from apps.collection.customers import customer_ensure
from apps.collection.gateway import call_with_retry
from apps.collection.models import StripeCustomer
from apps.sales.services import payment_method_note

HOSTS = ("https://checkout.stripe.com", "https://billing.stripe.com", "https://invoice.stripe.com")


def hosts() -> tuple[str, ...]:
    """Return the hosts of the Stripe pages to which our forms may redirect."""
    return (settings.STRIPE_API_BASE,) if settings.STRIPE_API_BASE else HOSTS


def is_test() -> bool:
    """Return whether the API key belongs to Stripe's test mode or a sandbox."""
    return str(settings.STRIPE_API_KEY).startswith("sk_test_")


def checkout_open(
    *,
    organisation: Organisation,
    currency: str,
    success_url: str,
    cancel_url: str,
    client: stripe.StripeClient,
    now: datetime,
) -> str:
    """Return the URL of a Stripe page on which the customer saves a card.

    Stripe replaces {CHECKOUT_SESSION_ID} in `success_url`. Raises gateway.OutcomeUnknown.
    """
    customer = customer_ensure(client=client, organisation=organisation, now=now)
    given: Any = {
        "mode": "setup",
        "customer": customer.customer_id,
        "currency": currency.lower(),
        "success_url": success_url,
        "cancel_url": cancel_url,
        "metadata": {"takt_organisation": str(organisation.id)},
    }
    return str(call_with_retry(lambda: client.v1.checkout.sessions.create(given)).url)


def portal_open(*, organisation: Organisation, return_url: str, client: stripe.StripeClient, now: datetime) -> str:
    """Return the URL of the Stripe page for managing cards and tax ids. Raises gateway.OutcomeUnknown."""
    customer = customer_ensure(client=client, organisation=organisation, now=now)
    given: Any = {"customer": customer.customer_id, "return_url": return_url}
    return call_with_retry(lambda: client.v1.billing_portal.sessions.create(given)).url


def session_sync(*, session_id: str, client: stripe.StripeClient, now: datetime) -> StripeCustomer | None:
    """Make the card of a completed Checkout session the default card. Each session takes effect only once.

    Return None if the session has no card or is not ours. Raises gateway.OutcomeUnknown.
    """
    session = call_with_retry(lambda: client.v1.checkout.sessions.retrieve(session_id))
    known = StripeCustomer.objects.filter(customer_id=str(session.customer)).first()
    if known is None or session.mode != "setup" or session.status != "complete":
        return None
    intent = call_with_retry(lambda: client.v1.setup_intents.retrieve(str(session.setup_intent)))
    method = call_with_retry(lambda: client.v1.payment_methods.retrieve(str(intent.payment_method)))
    if method.customer == known.customer_id:
        _default_set(known.customer_id, method.id, session, client)
    return customer_sync(customer_id=known.customer_id, client=client)


def _default_set(customer: str, method: str, session: Session, client: stripe.StripeClient) -> None:
    # The customer's metadata at Stripe names the newest session.
    found = call_with_retry(lambda: client.v1.customers.retrieve(customer))
    mark, held = f"{session.created:012d} {session.id}", found.metadata
    if held and "takt_session" in held and str(held["takt_session"]) >= mark:
        return
    given: Any = {"invoice_settings": {"default_payment_method": method}, "metadata": {"takt_session": mark}}
    options: Any = {"idempotency_key": f"session:{session.id}:default"}
    call_with_retry(lambda: client.v1.customers.update(customer, given, options))


@transaction.atomic
def customer_sync(*, customer_id: str, client: stripe.StripeClient) -> StripeCustomer | None:
    """Store which card is charged. Return None if the customer is not ours. Raises gateway.OutcomeUnknown."""
    known = StripeCustomer.objects.select_for_update().filter(customer_id=customer_id).first()
    if known is None:
        return None
    found = call_with_retry(lambda: client.v1.customers.retrieve(customer_id))
    chosen = None if getattr(found, "deleted", False) else found.invoice_settings.default_payment_method  # type: ignore[union-attr]
    known.payment_method, known.method_label = str(chosen or ""), ""
    if chosen:
        known.method_label = _label(call_with_retry(lambda: client.v1.payment_methods.retrieve(str(chosen))))
    known.save(update_fields=["payment_method", "method_label"])
    payment_method_note(organisation_id=known.organisation_id, is_present=bool(chosen))
    return known


def _label(method: stripe.PaymentMethod) -> str:
    card = getattr(method, "card", None)
    if card is None:
        return str(method.type).replace("_", " ")[:60]
    return f"{card.brand} ending in {card.last4}, valid until {card.exp_month:02d}/{card.exp_year}"[:60]
