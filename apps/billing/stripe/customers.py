"""Who is who at Stripe."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import stripe
from django.conf import settings
from django.db import transaction

from apps.accounts.models import Organisation
from apps.billing.models import StripeCustomer
from apps.billing.stripe.gateway import called, client_make


def client_of_settings() -> stripe.StripeClient:
    """The client for the installation's key."""
    return client_make(api_key=settings.STRIPE_API_KEY, base=settings.STRIPE_API_BASE)


@transaction.atomic
def customer_ensure(*, client: stripe.StripeClient, organisation: Organisation, now: datetime) -> StripeCustomer:
    """The organisation's customer at Stripe, made when there is none. Raises gateway.Uncertain."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    known = StripeCustomer.objects.filter(organisation=organisation).first()
    if known is not None:
        return known
    given: Any = {"name": organisation.name, "metadata": {"takt_organisation": str(organisation.id)}}
    options: Any = {"idempotency_key": f"organisation:{organisation.id}:customer"}
    made = called(lambda: client.v1.customers.create(given, options))
    return StripeCustomer.objects.create(organisation=organisation, customer_id=made.id, created_at=now)
