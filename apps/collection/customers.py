"""Customers at Stripe."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import stripe
import structlog
from django.conf import settings

from apps.accounts.models import Membership, Organisation
from apps.accounts.roles import MONEY
from apps.collection.calls import call_settle, customer_call_open
from apps.collection.gateway import OutcomeUnknown, call_with_retry, client_make
from apps.collection.lookup import ORGANISATION
from apps.collection.models import StripeCustomer

log = structlog.get_logger("stripe")


def client_of_settings() -> stripe.StripeClient:
    """Return a Stripe client with the installation's API key."""
    return client_make(api_key=settings.STRIPE_API_KEY, base=settings.STRIPE_API_BASE)


def customer_ensure(*, client: stripe.StripeClient, organisation: Organisation, now: datetime) -> StripeCustomer:
    """Return the organisation's customer at Stripe, created or updated if necessary.

    Raises gateway.OutcomeUnknown.
    """
    given: dict[str, Any] = {"name": organisation.name, "metadata": {ORGANISATION: str(organisation.id)}}
    call = customer_call_open(organisation=organisation, given=given, now=now)
    if call is not None:
        call_settle(call, client=client, now=now)
    known = StripeCustomer.objects.filter(organisation=organisation).first()
    if known is None:
        raise OutcomeUnknown("the customer could not be created at Stripe")
    address = _address(organisation)
    if address != known.email:
        _address_update(client, known, address)
    return known


def _address(organisation: Organisation) -> str:
    members = Membership.objects.filter(organisation=organisation, role__in=MONEY, user__is_active=True)
    known = sorted(members.values_list("role", "user__email"))  # "billing" before "owner"
    return known[0][1] if known else ""


def _address_update(client: stripe.StripeClient, known: StripeCustomer, address: str) -> None:
    # Stripe needs the address for invoices that are not charged immediately.
    try:
        call_with_retry(lambda: client.v1.customers.update(known.customer_id, {"email": address}))
    except stripe.InvalidRequestError as refusal:  # the invoice that needs it will report it
        log.warning("stripe.address_refused", customer=known.customer_id, reason=str(refusal)[:200])
        return
    known.email = address
    known.save(update_fields=["email"])
