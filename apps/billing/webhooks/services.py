"""What changes endpoints and deliveries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.accounts.services import audit_record
from apps.billing.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from apps.billing.outbox import ATTEMPTS_MAX, LONGEST_PAUSE, pause_after
from apps.billing.webhooks.sending import Answer, Refused, post, url_check
from apps.billing.webhooks.signing import headers_of, secret_make
from apps.ledger.models import OutboxRow

ENDPOINTS_MAX = 10
DISABLE_AFTER = timedelta(days=3)
SENT_AT_ONCE = 100
CLAIMED = timedelta(seconds=60)  # well beyond the deadline of one attempt
# What an endpoint may listen to: a word, the outbox topics behind it (prefixes), and what it says.
TOPICS: dict[str, tuple[tuple[str, ...], str]] = {
    "usage": (("ledger.usage",), "Every posting of usage"),
    "holds": (("ledger.hold.",), "Amounts set aside and given back"),
    "contracts": (("contract.",), "Contracts accepted and closed"),
    "invoices": (("invoice.",), "Invoices issued, paid, overdue"),
    "payments": (("payment.", "refund.", "dispute."), "Money that came, went back or is disputed"),
    "credits": (("credit_note.", "credit.", "guarantee."), "Credit notes and credits"),
    "budgets": (("budget.",), "Alerts of budgets"),
}


@transaction.atomic
def endpoint_create(
    *, organisation: Organisation, url: str, topics: Sequence[str], actor: User, now: datetime
) -> WebhookEndpoint:
    """A new endpoint; its secret is shown once. Raises Problem for an address that would never be called."""
    try:
        url_check(url)
    except Refused as refusal:
        raise Problem(422, "Address refused", str(refusal), kind="webhook-address") from None
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if WebhookEndpoint.objects.filter(organisation=organisation, deleted_at=None).count() >= ENDPOINTS_MAX:
        raise Problem(409, "Too many endpoints", f"There are {ENDPOINTS_MAX} already; delete one first.")
    endpoint = WebhookEndpoint.objects.create(
        organisation=organisation, url=url, secret=secret_make(), topics=sorted(set(topics)), created_at=now
    )
    _audit("webhook.create", endpoint, actor, now)
    return endpoint


@transaction.atomic
def endpoint_switch(*, endpoint: WebhookEndpoint, active: bool, actor: User, now: datetime) -> None:
    """On, with a clean record, or off. What waits is sent when it is on again."""
    endpoint.is_active, endpoint.failing_since = active, None
    endpoint.disabled_at = None if active else now
    endpoint.save(update_fields=["is_active", "failing_since", "disabled_at"])
    _audit("webhook.on" if active else "webhook.off", endpoint, actor, now)


@transaction.atomic
def endpoint_delete(*, endpoint: WebhookEndpoint, actor: User, now: datetime) -> None:
    """Never called again; its log stays."""
    endpoint.is_active, endpoint.deleted_at, endpoint.secret = False, now, ""
    endpoint.save(update_fields=["is_active", "deleted_at", "secret"])
    _audit("webhook.delete", endpoint, actor, now)


def _audit(action: str, endpoint: WebhookEndpoint, actor: User, now: datetime) -> None:
    audit_record(
        action=action, now=now, actor=actor, organisation=endpoint.organisation, subject=str(endpoint.pk),
        detail={"url": endpoint.url},
    )  # fmt: skip


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
    """A message of topic `test`, sent like any other."""
    body = body_of("test", {"endpoint": str(endpoint.pk)}, now)
    return WebhookDelivery.objects.create(endpoint=endpoint, topic="test", body=body, created_at=now, next_at=now)


def replay(*, delivery: WebhookDelivery, now: datetime) -> WebhookDelivery:
    """Send it again, under its own id, whether it arrived or not."""
    WebhookDelivery.objects.filter(pk=delivery.pk).update(attempts=0, next_at=now, delivered_at=None, dead_at=None)
    delivery.refresh_from_db()
    return delivery


def deliveries_send(*, now: datetime) -> int:
    """Send what is due; returns how many attempts were made. Any number of processes may do this at once."""
    count = 0
    while count < SENT_AT_ONCE and _send_next(now):
        count += 1
    return count


def _send_next(now: datetime) -> bool:
    """Claim what is due, send it with no lock held, write down what came of it: a slow receiver holds up nobody."""
    delivery = _claim(now)
    if delivery is None:
        return False
    body = delivery.body.encode()
    signed = headers_of(
        delivery.endpoint.secret, message_id=f"msg_{delivery.id.hex}", timestamp=int(now.timestamp()), body=body
    )
    _note(delivery, post(delivery.endpoint.url, body=body, headers=signed), now)
    return True


@transaction.atomic
def _claim(now: datetime) -> WebhookDelivery | None:
    """The next delivery that is due, kept from others for longer than an attempt takes; one whose sender dies is due
    again after that, under the same id."""
    # A pause longer than the longest comes from a clock that was set back: it is over.
    due = Q(next_at__lte=now) | Q(next_at__gt=now + LONGEST_PAUSE)
    waiting = WebhookDelivery.objects.filter(due, delivered_at=None, dead_at=None, endpoint__is_active=True)
    locked = waiting.select_for_update(skip_locked=True, of=("self",)).select_related("endpoint")
    delivery = locked.order_by("next_at", "created_at", "id").first()
    if delivery is not None:
        delivery.attempts, delivery.next_at = delivery.attempts + 1, now + CLAIMED
        delivery.save(update_fields=["attempts", "next_at"])
    return delivery


@transaction.atomic
def _note(sent: WebhookDelivery, answer: Answer, now: datetime) -> None:
    """What came of an attempt."""
    delivery = WebhookDelivery.objects.select_for_update().get(pk=sent.pk)
    WebhookAttempt.objects.create(
        delivery=delivery, at=now, status=answer.status, answer=answer.text, error=answer.error
    )
    if answer.is_success:
        delivery.delivered_at = now
    elif delivery.attempts >= ATTEMPTS_MAX:
        delivery.dead_at = now
    else:
        delivery.next_at = now + pause_after(max(delivery.attempts, 1))
    delivery.save(update_fields=["next_at", "delivered_at", "dead_at"])
    _endpoint_note(delivery.endpoint_id, success=answer.is_success, now=now)


def _endpoint_note(endpoint_id: Any, *, success: bool, now: datetime) -> None:
    """Remember since when nothing arrives; after three days switch the endpoint off and say so."""
    endpoint = WebhookEndpoint.objects.select_for_update().get(pk=endpoint_id)
    if success:
        endpoint.failing_since = None
    elif endpoint.failing_since is None:
        endpoint.failing_since = now
    elif now - endpoint.failing_since >= DISABLE_AFTER and endpoint.is_active:
        endpoint.is_active, endpoint.disabled_at = False, now
        transaction.on_commit(lambda: _tell(endpoint), robust=True)
    endpoint.save(update_fields=["failing_since", "is_active", "disabled_at"])


def _tell(endpoint: WebhookEndpoint) -> None:
    members = Membership.objects.filter(organisation=endpoint.organisation, role__in=MONEY, user__is_active=True)
    send_mail(
        "A webhook was switched off",
        f"For three days no message to {endpoint.url} has arrived, so it is switched off.\nMend it and switch it on "
        "under Billing portal, Webhooks; what waited is then sent.\n",
        None,
        sorted(members.values_list("user__email", flat=True)),
    )
