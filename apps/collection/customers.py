"""Who is who at Stripe."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import stripe
import structlog
from django.conf import settings

from apps.accounts.models import Membership, Organisation
from apps.accounts.roles import MONEY
from apps.collection.calls import call_settle, customer_call
from apps.collection.gateway import Uncertain, called, client_make
from apps.collection.looking import ORGANISATION
from apps.collection.models import StripeCustomer

log = structlog.get_logger("stripe")


def client_of_settings() -> stripe.StripeClient:
    """The client for the installation's key."""
    return client_make(api_key=settings.STRIPE_API_KEY, base=settings.STRIPE_API_BASE)


def customer_ensure(*, client: stripe.StripeClient, organisation: Organisation, now: datetime) -> StripeCustomer:
    """The organisation's customer at Stripe, made when there is none, with the address that invoices go to.

    Raises gateway.Uncertain.
    """
    given: dict[str, Any] = {"name": organisation.name, "metadata": {ORGANISATION: str(organisation.id)}}
    call = customer_call(organisation=organisation, given=given, now=now)
    if call is not None:
        call_settle(call, client=client, now=now)
    known = StripeCustomer.objects.filter(organisation=organisation).first()
    if known is None:
        raise Uncertain("the customer could not be made at Stripe")
    address = _address(organisation)
    if address != known.email:
        _tell_address(client, known, address)
    return known


def _address(organisation: Organisation) -> str:
    """Whom to write to about money: a billing person where there is one, else an owner. Empty when there is nobody."""
    members = Membership.objects.filter(organisation=organisation, role__in=MONEY, user__is_active=True)
    known = sorted(members.values_list("role", "user__email"))  # "billing" before "owner"
    return known[0][1] if known else ""


def _tell_address(client: stripe.StripeClient, known: StripeCustomer, address: str) -> None:
    """Stripe takes no invoice that is not charged at once for a customer without an address."""
    try:
        called(lambda: client.v1.customers.update(known.customer_id, {"email": address}))
    except stripe.InvalidRequestError as refusal:  # the invoice that needs it will say so
        log.warning("stripe.address_refused", customer=known.customer_id, reason=str(refusal)[:200])
        return
    known.email = address
    known.save(update_fields=["email"])
