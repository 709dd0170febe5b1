"""Who may open the addresses of the collection room."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import MONEY
from apps.collection.models import StripeEvent
from tests.cast import Cast
from tests.tenancy import page


def _event(cast: Cast) -> dict[str, Any]:
    now = timezone.now()
    StripeEvent.objects.create(id="evt_1", type="invoice.paid", created=now, received_at=now, payload={})
    return {"pk": "evt_1"}


ROUTES = [
    page("/stripe/webhook", "POST", public=True),
    page("/stripe", "GET", "POST", admin=True),
    page("/stripe/events/<str:pk>", "GET", "POST", admin=True, make=_event),
    page("/portal/payment-methods", "GET", "POST", roles=MONEY),
]
