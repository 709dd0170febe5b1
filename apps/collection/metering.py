"""Sends usage to a billing meter at Stripe, for display only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import stripe
from django.conf import settings
from django.db.models import Sum

from apps.collection.customers import client_of_settings, customer_ensure
from apps.collection.gateway import call_with_retry
from apps.ledger.models import OutboxRow, UsageRow


def usage_mirror(row: OutboxRow, *, now: datetime) -> None:
    """Send a posting's billed operations to the meter, once for each posting. Does nothing without an API key."""
    if not settings.STRIPE_API_KEY:
        return
    client = client_of_settings()
    customer = customer_ensure(client=client, organisation=row.organisation, now=now)
    name = row.payload["transaction"]
    operations = UsageRow.objects.filter(transaction_id=name).aggregate(sum=Sum("billed_operations"))["sum"] or 0
    given: Any = {
        "event_name": settings.STRIPE_METER,
        "identifier": name,
        "payload": {"stripe_customer_id": customer.customer_id, "value": str(int(operations))},
    }
    try:
        call_with_retry(lambda: client.v1.billing.meter_events.create(given))
    except stripe.InvalidRequestError as refusal:
        if "already exists" not in str(refusal):
            raise
