"""Schedules webhook deliveries (docs/adr/0064-deliveries-in-two-lanes.md).

An endpoint is unproven if it was never called or if the last response was not a prompt 2xx. An unproven endpoint gets
one message at a time, and all unproven endpoints together use at most half of the slots.

If an endpoint does not respond or responds with 429 or 5xx, sending pauses for 5 s, 10 s, 20 s and so on, up to an
hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from apps.invoicing.outbox import ATTEMPTS_MAX, LONGEST_PAUSE, outbox_write, pause_after
from apps.notifications.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks.sending import Response, post
from apps.notifications.webhooks.signing import headers_of

ENDPOINT_MAX = 4
ORGANISATION_MAX = 4
ENDPOINTS_PER_RUN = 200
CLAIMED = timedelta(seconds=settings.WEBHOOK_SECONDS + 50)  # well beyond the deadline of one attempt
PROMPT = timedelta(seconds=2)
DISABLE_AFTER = timedelta(days=3)
LONGEST_ENDPOINT_PAUSE = timedelta(hours=1)
LOCK = 0x7A6B0064  # an advisory lock: one dispatcher claims at a time

log = structlog.get_logger("webhooks")

Send = Callable[[UUID, int], None]  # (delivery, number of the attempt)
Clock = Callable[[], datetime]


@dataclass
class _Slots:
    left: int
    unproven_left: int
    endpoints: Counter[UUID] = field(default_factory=Counter)
    organisations: Counter[UUID] = field(default_factory=Counter)

    def take(self, endpoint_id: UUID, organisation_id: UUID, *, proven: bool) -> None:
        self.left -= 1
        self.unproven_left -= not proven
        self.endpoints[endpoint_id] += 1
        self.organisations[organisation_id] += 1

    def free(self, endpoint: WebhookEndpoint) -> int:
        proven = _is_proven(endpoint.failures, endpoint.prompt_at)
        return min(
            (ENDPOINT_MAX if proven else 1) - self.endpoints[endpoint.pk],
            ORGANISATION_MAX - self.organisations[endpoint.organisation_id],
            self.left if proven else min(self.left, self.unproven_left),
        )


def _is_proven(failures: int, prompt_at: datetime | None) -> bool:
    return failures == 0 and prompt_at is not None


def deliveries_offer(*, now: datetime, send: Send) -> int:
    """Claim the messages that can be sent now, and call `send` for each claim. Return the number of claims.

    Several processes can call this function at the same time. If `send` fails, the message is due again once the claim
    expires.
    """
    claims = _claim(now)
    for delivery_id, attempt in claims:
        try:
            send(delivery_id, attempt)
        except Exception as error:  # noqa: BLE001 - the broker is down; the claim expires and is sent later
            log.warning("webhook_not_queued", delivery=str(delivery_id), error=f"{type(error).__name__}: {error}")
    return len(claims)


@transaction.atomic
def _claim(now: datetime) -> list[tuple[UUID, int]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    slots, claims = _slots(now), []
    answering = Q(failures=0, prompt_at__isnull=False)
    for lane in (answering, ~answering):
        for endpoint in _endpoints_due(now).filter(lane)[:ENDPOINTS_PER_RUN]:
            for delivery in (
                _due(now).filter(endpoint=endpoint).order_by("next_at", "id")[: max(0, slots.free(endpoint))]
            ):
                delivery.attempts, delivery.claimed_until = delivery.attempts + 1, now + CLAIMED
                delivery.save(update_fields=["attempts", "claimed_until"])
                proven = _is_proven(endpoint.failures, endpoint.prompt_at)
                slots.take(endpoint.pk, endpoint.organisation_id, proven=proven)
                claims.append((delivery.pk, delivery.attempts))
                WebhookEndpoint.objects.filter(pk=endpoint.pk).update(last_attempt_at=now)
    return claims


def _slots(now: datetime) -> _Slots:
    total = settings.WEBHOOK_CONCURRENCY
    slots = _Slots(left=total, unproven_left=total // 2)
    in_flight = WebhookDelivery.objects.filter(_is_open(), claimed_until__gt=now, claimed_until__lte=now + CLAIMED)
    columns = ("endpoint_id", "endpoint__organisation_id", "endpoint__failures", "endpoint__prompt_at")
    for endpoint_id, organisation_id, failures, prompt_at in in_flight.values_list(*columns):
        slots.take(endpoint_id, organisation_id, proven=_is_proven(failures, prompt_at))
    return slots


def _is_open() -> Q:
    return Q(delivered_at=None, dead_at=None)


def _due(now: datetime) -> QuerySet[WebhookDelivery]:
    # If a message is due later than now plus the longest pause, the clock was set back, so the message counts as due.
    is_time = Q(next_at__lte=now) | Q(next_at__gt=now + LONGEST_PAUSE)
    is_free = Q(claimed_until=None) | Q(claimed_until__lte=now) | Q(claimed_until__gt=now + CLAIMED)
    return WebhookDelivery.objects.filter(_is_open(), is_time, is_free)


def _endpoints_due(now: datetime) -> QuerySet[WebhookEndpoint]:
    # The endpoint whose last attempt is oldest comes first.
    longest = now + LONGEST_ENDPOINT_PAUSE
    is_awake = Q(paused_until=None) | Q(paused_until__lte=now) | Q(paused_until__gt=longest)
    found = WebhookEndpoint.objects.filter(is_awake, Exists(_due(now).filter(endpoint=OuterRef("pk"))))
    return found.filter(is_active=True, deleted_at=None).order_by(F("last_attempt_at").asc(nulls_first=True), "id")


def delivery_send(*, delivery_id: UUID, attempt: int, clock: Clock) -> bool:
    """Make one claimed attempt to send a message. Return whether the message was delivered.

    Does nothing if the claim has expired or belongs to another worker. No lock is held while the receiver responds.
    """
    started = clock()
    claimed = WebhookDelivery.objects.select_related("endpoint").filter(
        _is_open(), pk=delivery_id, attempts=attempt, claimed_until__gt=started, endpoint__is_active=True
    )
    delivery = claimed.first()
    if delivery is None:
        return False
    body = delivery.body.encode()
    signed = headers_of(
        delivery.endpoint.secret, message_id=f"msg_{delivery.id.hex}", timestamp=int(started.timestamp()), body=body
    )
    response = post(delivery.endpoint.url, body=body, headers=signed)
    _attempt_store(delivery, response, started=started, now=clock())
    return response.is_success


@transaction.atomic
def _attempt_store(sent: WebhookDelivery, response: Response, *, started: datetime, now: datetime) -> None:
    endpoint = WebhookEndpoint.objects.select_for_update().get(pk=sent.endpoint_id)
    delivery = WebhookDelivery.objects.select_for_update().get(pk=sent.pk)
    WebhookAttempt.objects.create(
        delivery=delivery, at=started, status=response.status, answer=response.text, error=response.error
    )
    delivery.claimed_until = None
    if response.is_success:
        delivery.delivered_at = now
    elif delivery.attempts >= ATTEMPTS_MAX:
        delivery.dead_at = now
    else:
        delivery.next_at = now + pause_after(max(delivery.attempts, 1))
    delivery.save(update_fields=["claimed_until", "next_at", "delivered_at", "dead_at"])
    if response.is_success:
        endpoint.failures, endpoint.failing_since, endpoint.paused_until = 0, None, None
        endpoint.prompt_at = now if now - started <= PROMPT else None
        endpoint.save(update_fields=["failures", "failing_since", "paused_until", "prompt_at"])
    else:
        _endpoint_failed(endpoint, response, now)


def _endpoint_failed(endpoint: WebhookEndpoint, response: Response, now: datetime) -> None:
    if response.is_overloaded:
        endpoint.failures += 1
        endpoint.paused_until = now + pause_after(endpoint.failures, longest=LONGEST_ENDPOINT_PAUSE)
    if endpoint.failing_since is None:
        endpoint.failing_since = now
    elif now - endpoint.failing_since >= DISABLE_AFTER and endpoint.is_active:
        endpoint.is_active, endpoint.disabled_at = False, now
        payload: dict[str, Any] = {"endpoint": str(endpoint.pk)}
        outbox_write(organisation_id=endpoint.organisation_id, topic="webhook.disabled", payload=payload, now=now)
    endpoint.save(update_fields=["failures", "paused_until", "failing_since", "is_active", "disabled_at"])
