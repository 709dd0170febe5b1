"""JSON API for webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import MONEY, Scope
from apps.notifications.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks import services

router = Router(tags=["webhooks"])
BILLING = requires(Scope.BILLING, roles=MONEY)
Topic = Literal["usage", "holds", "contracts", "invoices", "payments", "credits", "budgets", "standing", "compiles"]


class WebhookIn(RequestBody):
    url: str = Field(max_length=500, pattern=r"^[!-~]+$")
    topics: list[Topic] = Field(min_length=1, max_length=9)


class WebhookOut(Schema):
    id: UUID
    url: str
    topics: list[str]
    is_active: bool
    created_at: datetime
    failing_since: datetime | None
    failures: int
    paused_until: datetime | None


class WebhookMadeOut(WebhookOut):
    secret: str


class WebhookAttemptOut(Schema):
    at: datetime
    status: int | None
    answer: str
    error: str


class WebhookDeliveryOut(Schema):
    id: UUID
    topic: str
    body: str
    attempts: int
    created_at: datetime
    delivered_at: datetime | None
    dead_at: datetime | None
    tries: list[WebhookAttemptOut]

    @staticmethod
    def resolve_tries(row: WebhookDelivery) -> list[WebhookAttempt]:
        return list(row.tries.all())


def _endpoint(request: HttpRequest, pk: UUID) -> WebhookEndpoint:
    return org_object_get(request, WebhookEndpoint.objects.filter(deleted_at=None), roles=MONEY, pk=pk)


@router.get("/webhooks", auth=BILLING, response=list[WebhookOut], operation_id="webhook_list", summary="Webhooks")
@paginate(Cursor, ordering=("created_at", "id"))
def webhook_list(request: HttpRequest) -> QuerySet[WebhookEndpoint]:
    """Lists the organisation's webhooks, without their secrets."""
    return WebhookEndpoint.objects.filter(organisation=organisation_get(request, roles=MONEY), deleted_at=None)


@router.post(
    "/webhooks", auth=BILLING, response={201: WebhookMadeOut}, operation_id="webhook_create", summary="Add a webhook"
)
@idempotent
def webhook_create(request: HttpRequest, payload: WebhookIn) -> tuple[int, WebhookEndpoint]:
    """Creates a webhook. Only this response contains the secret."""
    return 201, services.endpoint_create(
        organisation=organisation_get(request, roles=MONEY),
        url=payload.url,
        topics=list(payload.topics),
        actor=principal_get(request).user,
        now=timezone.now(),
    )


@router.delete(
    "/webhooks/{uuid:pk}", auth=BILLING, response={204: None}, operation_id="webhook_delete", summary="Delete a webhook"
)
def webhook_delete(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    """Deletes a webhook, which stops its messages."""
    services.endpoint_delete(endpoint=_endpoint(request, pk), actor=principal_get(request).user, now=timezone.now())
    return 204, None


@router.get(
    "/webhooks/{uuid:pk}/deliveries",
    auth=BILLING,
    response=list[WebhookDeliveryOut],
    operation_id="webhook_deliveries",
    summary="Messages and their responses",
)
@paginate(Cursor, ordering=("-created_at", "id"))
def webhook_deliveries(request: HttpRequest, pk: UUID) -> QuerySet[WebhookDelivery]:
    """Lists the messages to a webhook, newest first, with every delivery attempt."""
    return WebhookDelivery.objects.filter(endpoint=_endpoint(request, pk)).prefetch_related("tries")


@router.post(
    "/webhooks/{uuid:pk}/test",
    auth=BILLING,
    response={201: WebhookDeliveryOut},
    operation_id="webhook_test",
    summary="Send a test message",
)
@idempotent
def webhook_test(request: HttpRequest, pk: UUID) -> tuple[int, WebhookDelivery]:
    """Sends a signed test message."""
    return 201, services.test_message(endpoint=_endpoint(request, pk), now=timezone.now())


@router.post(
    "/webhook-deliveries/{uuid:pk}/replay",
    auth=BILLING,
    response=WebhookDeliveryOut,
    operation_id="webhook_replay",
    summary="Send a message again",
)
@idempotent
def webhook_replay(request: HttpRequest, pk: UUID) -> WebhookDelivery:
    """Sends a message again with the same id and body."""
    return services.replay(delivery=org_object_get(request, WebhookDelivery, roles=MONEY, pk=pk), now=timezone.now())
