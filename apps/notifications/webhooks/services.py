"""What changes endpoints and deliveries."""

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
# What an endpoint may listen to: a word, the outbox topics behind it (prefixes), and what it says.
TOPICS: dict[str, tuple[tuple[str, ...], str]] = {
    "usage": (("ledger.usage",), "Every posting of usage"),
    "holds": (("ledger.hold.",), "Amounts set aside and given back"),
    "contracts": (("contract.",), "Contracts accepted and closed"),
    "invoices": (("invoice.",), "Invoices issued, paid, overdue"),
    "payments": (("payment.", "refund.", "dispute."), "Money that came, went back or is disputed"),
    "credits": (("credit_note.", "credit.", "guarantee."), "Credit notes and credits"),
    "budgets": (("budget.",), "Alerts of budgets"),
    "standing": (("standing.",), "Standing requests filed, served and ended"),
    "compiles": (("compile.",), "Compiles that were asked for together have ended"),
}


def endpoint_create(
    *, organisation: Organisation, url: str, topics: Sequence[str], actor: User, now: datetime
) -> WebhookEndpoint:
    """A new endpoint; its secret is shown once. Raises Problem for an address that would never be called."""
    try:
        destination_check(url)  # asks the resolver, so it comes before the transaction
    except Refused as refusal:
        raise Problem(422, "Address refused", str(refusal), kind="webhook-address") from None
    return _endpoint_store(organisation, url, topics, actor, now)


@transaction.atomic
def _endpoint_store(
    organisation: Organisation, url: str, topics: Sequence[str], actor: User, now: datetime
) -> WebhookEndpoint:
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if WebhookEndpoint.objects.filter(organisation=organisation, deleted_at=None).count() >= ENDPOINTS_MAX:
        raise Problem(
            409, "Too many endpoints", f"There are {ENDPOINTS_MAX} already; delete one first.", kind="too-many-webhooks"
        )
    endpoint = WebhookEndpoint.objects.create(
        organisation=organisation, url=url, secret=secret_make(), topics=sorted(set(topics)), created_at=now
    )
    _audit("webhook.create", endpoint, actor, now)
    return endpoint


@transaction.atomic
def endpoint_switch(*, endpoint: WebhookEndpoint, active: bool, actor: User, now: datetime) -> None:
    """On, with a clean record, or off. What waits is sent when it is on again."""
    endpoint.is_active, endpoint.failing_since, endpoint.failures, endpoint.paused_until = active, None, 0, None
    endpoint.disabled_at = None if active else now
    endpoint.save(update_fields=["is_active", "failing_since", "failures", "paused_until", "disabled_at"])
    _audit("webhook.on" if active else "webhook.off", endpoint, actor, now)


@transaction.atomic
def endpoint_delete(*, endpoint: WebhookEndpoint, actor: User, now: datetime) -> None:
    """Never called again; its log stays."""
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
    """A delivery for each endpoint that listens to the row's topic."""
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
    """The message: what happened, when, and its data."""
    stamp = at.astimezone(UTC).isoformat(timespec="microseconds")
    return json.dumps({"type": topic, "timestamp": stamp, "data": payload}, sort_keys=True)


def test_message(*, endpoint: WebhookEndpoint, now: datetime) -> WebhookDelivery:
    """A message of topic `test`, sent like any other; an endpoint that was backed off is tried now."""
    body = body_of("test", {"endpoint": str(endpoint.pk)}, now)
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(paused_until=None)
    return WebhookDelivery.objects.create(endpoint=endpoint, topic="test", body=body, created_at=now, next_at=now)


def replay(*, delivery: WebhookDelivery, now: datetime) -> WebhookDelivery:
    """Send it again, under its own id, whether it arrived or not; an endpoint that was backed off is tried now."""
    WebhookEndpoint.objects.filter(pk=delivery.endpoint_id).update(paused_until=None)
    WebhookDelivery.objects.filter(pk=delivery.pk).update(
        attempts=0, next_at=now, claimed_until=None, delivered_at=None, dead_at=None
    )
    delivery.refresh_from_db()
    return delivery


def disabled_mail(row: OutboxRow, *, now: datetime) -> None:
    """Tell those who deal with money that an endpoint was switched off; carried out from the outbox."""
    endpoint = WebhookEndpoint.objects.get(pk=row.payload["endpoint"])
    members = Membership.objects.filter(organisation=endpoint.organisation, role__in=MONEY, user__is_active=True)
    send_mail(
        "A webhook was switched off",
        f"No message to {endpoint.url} has arrived for three days, so we switched the webhook off.\nWhen the receiver "
        "works again, switch it on under Billing portal, Webhooks; the messages that wait are then sent.\n",
        None,
        sorted(members.values_list("user__email", flat=True)),
    )
