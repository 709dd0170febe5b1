"""Who may open the addresses of the notifications room."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone

from apps.accounts.roles import MONEY, Scope
from apps.notifications.budgets.services import budget_create
from apps.notifications.models import WebhookEndpoint
from apps.notifications.notices.services import notice_create
from apps.notifications.webhooks.services import endpoint_create, test_message
from tests.cast import Cast
from tests.tenancy import operation, page


def an_endpoint_of(cast: Cast) -> WebhookEndpoint:
    """An endpoint that hears of invoices."""
    return endpoint_create(
        organisation=cast.organisation,
        url="https://example.com/hook",
        topics=["invoices"],
        actor=cast.billing,
        now=timezone.now(),
    )


def _endpoint(cast: Cast) -> dict[str, Any]:
    return {"pk": an_endpoint_of(cast).pk}


def _delivery(cast: Cast) -> dict[str, Any]:
    return {"pk": test_message(endpoint=an_endpoint_of(cast), now=timezone.now()).pk}


def _budget(cast: Cast) -> dict[str, Any]:
    now, amount = timezone.now(), Decimal(10)
    return {
        "pk": budget_create(
            organisation=cast.organisation, amount=amount, currency="EUR", actor=cast.billing, now=now
        ).pk
    }


def _notice(cast: Cast) -> dict[str, Any]:
    now = timezone.now()
    notice = notice_create(organisation=cast.organisation, user=cast.engineer, text="Compiled", path="/models", now=now)
    return {"pk": notice.pk}


WEBHOOK = {"url": "https://example.com/hook", "topics": ["invoices"]}

ROUTES = [
    page("/notices"),
    page("/notices/read", "POST"),
    page("/notices/<uuid:pk>", "POST", make=_notice, own=True),
    page("/portal/budgets"),
    page("/portal/budgets", "POST", roles=MONEY),
    page("/portal/budgets/<uuid:pk>/delete", "POST", roles=MONEY, make=_budget),
    page("/portal/webhooks", "GET", "POST", roles=MONEY),
    page("/portal/webhooks/<uuid:pk>", "GET", "POST", roles=MONEY, make=_endpoint),
    page("/outbox", admin=True),
    operation("GET /budgets"),
    operation("POST /budgets", roles=MONEY, scope=Scope.BILLING, body={"amount": "10.00"}),
    operation("DELETE /budgets/{uuid:pk}", roles=MONEY, scope=Scope.BILLING, make=_budget),
    operation("GET /budget-alerts"),
    operation("GET /webhooks", roles=MONEY, scope=Scope.BILLING),
    operation("POST /webhooks", roles=MONEY, scope=Scope.BILLING, body=WEBHOOK),
    operation("DELETE /webhooks/{uuid:pk}", roles=MONEY, scope=Scope.BILLING, make=_endpoint),
    operation("GET /webhooks/{uuid:pk}/deliveries", roles=MONEY, scope=Scope.BILLING, make=_endpoint),
    operation("POST /webhooks/{uuid:pk}/test", roles=MONEY, scope=Scope.BILLING, make=_endpoint, body={}),
    operation("POST /webhook-deliveries/{uuid:pk}/replay", roles=MONEY, scope=Scope.BILLING, make=_delivery, body={}),
]
