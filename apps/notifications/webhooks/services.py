"""Creates, enables, disables and deletes webhook endpoints, and creates deliveries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.mail import send_mail
from django.db import transaction

from apps.accounts.models import Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.accounts.services import audit_record
from apps.ledger.models import OutboxRow
from apps.notifications.models import WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks.sending import Refused, destination_check
from apps.notifications.webhooks.signing import secret_make

ENDPOINTS_MAX = 10
# The events that an endpoint can subscribe to: name, prefixes of the outbox topics, and label.
TOPICS: dict[str, tuple[tuple[str, ...], str]] = {
    "usage": (("ledger.usage",), "Usage recorded"),
    "holds": (("ledger.hold.",), "Holds placed and released"),
    "contracts": (("contract.",), "Contracts accepted and closed"),
    "invoices": (("invoice.",), "Invoices issued, paid and overdue"),
    "payments": (("payment.", "refund.", "dispute."), "Payments, refunds and disputes"),
    "credits": (("credit_note.", "credit.", "guarantee."), "Credit notes and credits"),
    "budgets": (("budget.",), "Budget alerts"),
    "standing": (("standing.",), "Standing requests filed, fulfilled and ended"),
    "compiles": (("compile.",), "Compiles finished"),
}


def endpoint_create(
    *, organisation: Organisation, url: str, topics: Sequence[str], actor: User, now: datetime
) -> WebhookEndpoint:
    """Create an endpoint with a new secret. Raises Problem if the endpoint is a duplicate or the address is refused."""
    try:
        destination_check(url)  # a DNS lookup, so outside the transaction
    except Refused as refusal:
        raise Problem(422, "Address refused", str(refusal), kind="webhook-address") from None
    return _endpoint_store(organisation, url, topics, actor, now)


@transaction.atomic
def _endpoint_store(
    organisation: Organisation, url: str, topics: Sequence[str], actor: User, now: datetime
) -> WebhookEndpoint:
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    chosen = sorted(set(topics))
    if WebhookEndpoint.objects.filter(organisation=organisation, deleted_at=None).count() >= ENDPOINTS_MAX:
        raise Problem(
            409,
            "Too many endpoints",
            f"You have {ENDPOINTS_MAX} endpoints, which is the maximum. Delete one first.",
            kind="too-many-webhooks",
        )
    if WebhookEndpoint.objects.filter(organisation=organisation, deleted_at=None, url=url, topics=chosen).exists():
        raise Problem(
            409,
            "Endpoint exists",
            "There is already an endpoint with this address and these events. To get a new secret, delete that endpoint first.",
            kind="webhook-exists",
        )
    endpoint = WebhookEndpoint.objects.create(
        organisation=organisation, url=url, secret=secret_make(), topics=chosen, created_at=now
    )
    _audit("webhook.create", endpoint, actor, now)
    return endpoint


@transaction.atomic
def endpoint_switch(*, endpoint: WebhookEndpoint, active: bool, actor: User, now: datetime) -> None:
    """Switch an endpoint on or off, and clear the failures. Waiting messages are sent once the endpoint is on."""
    endpoint.is_active, endpoint.failing_since, endpoint.failures, endpoint.paused_until = active, None, 0, None
    endpoint.disabled_at = None if active else now
    endpoint.save(update_fields=["is_active", "failing_since", "failures", "paused_until", "disabled_at"])
    _audit("webhook.on" if active else "webhook.off", endpoint, actor, now)


@transaction.atomic
def endpoint_delete(*, endpoint: WebhookEndpoint, actor: User, now: datetime) -> None:
    """Delete an endpoint and keep the deliveries."""
    endpoint.is_active, endpoint.deleted_at, endpoint.secret = False, now, ""
    endpoint.save(update_fields=["is_active", "deleted_at", "secret"])
    _audit("webhook.delete", endpoint, actor, now)


def _audit(action: str, endpoint: WebhookEndpoint, actor: User, now: datetime) -> None:
    audit_record(
        action=action,
        now=now,
        actor=actor,
        organisation=endpoint.organisation,
        subject=str(endpoint.pk),
        detail={"url": endpoint.url},
    )


def outbox_handle(row: OutboxRow, *, now: datetime) -> None:
    """Create a delivery for each active endpoint that subscribes to the row's topic."""
    endpoints = WebhookEndpoint.objects.filter(organisation_id=row.organisation_id, is_active=True, deleted_at=None)
    body = body_of(row.topic, row.payload, row.created_at)
    WebhookDelivery.objects.bulk_create(
        (
            WebhookDelivery(endpoint=one, row=row, topic=row.topic, body=body, created_at=now, next_at=now)
            for one in endpoints
            if any(row.topic.startswith(TOPICS[name][0]) for name in one.topics)
        ),
        ignore_conflicts=True,
    )


def body_of(topic: str, payload: dict[str, Any], at: datetime) -> str:
    """Return the JSON body of a message, with the type, timestamp and data."""
    stamp = at.astimezone(UTC).isoformat(timespec="microseconds")
    return json.dumps({"type": topic, "timestamp": stamp, "data": payload}, sort_keys=True)


def test_message(*, endpoint: WebhookEndpoint, now: datetime) -> WebhookDelivery:
    """Create a delivery with the topic `test`, and end the endpoint's pause so that the message is sent now."""
    body = body_of("test", {"endpoint": str(endpoint.pk)}, now)
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(paused_until=None)
    return WebhookDelivery.objects.create(endpoint=endpoint, topic="test", body=body, created_at=now, next_at=now)


def replay(*, delivery: WebhookDelivery, now: datetime) -> WebhookDelivery:
    """Send a delivery again with the same id, even if it was delivered before. Ends the endpoint's pause."""
    WebhookEndpoint.objects.filter(pk=delivery.endpoint_id).update(paused_until=None)
    WebhookDelivery.objects.filter(pk=delivery.pk).update(
        attempts=0, next_at=now, claimed_until=None, delivered_at=None, dead_at=None
    )
    delivery.refresh_from_db()
    return delivery


def disabled_mail(row: OutboxRow, *, now: datetime) -> None:
    """Tell the organisation's owners and billing members by mail that an endpoint was switched off."""
    endpoint = WebhookEndpoint.objects.get(pk=row.payload["endpoint"])
    members = Membership.objects.filter(organisation=endpoint.organisation, role__in=MONEY, user__is_active=True)
    send_mail(
        "A webhook was switched off",
        f"No message to {endpoint.url} was delivered for three days, so we switched the webhook off.\nWhen the receiver "
        "works again, switch the webhook on under Billing portal, Webhooks. The waiting messages will then be sent.\n",
        None,
        sorted(members.values_list("user__email", flat=True)),
    )
