"""Who is sent what, and when: many messages at once, with a bound for each receiver, organisation and kind of receiver.

A dispatcher claims what is due, under one lock so that its counts are true, and hands each claim to a worker:

- at most WEBHOOK_CONCURRENCY messages are on their way, at most ORGANISATION_MAX of them of one organisation and
  ENDPOINT_MAX to one endpoint;
- an endpoint whose last answer was not a prompt 2xx, and one that was never called, gets one message at a time, and all
  such endpoints together at most half of the places: however many hang, those who answer keep the other half;
- an endpoint without a usable answer (none, 429 or 5xx) is left alone for 5 s, 10 s, 20 s, ... up to an hour.

See docs/adr/0064-deliveries-in-two-lanes.md.
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
from apps.notifications.webhooks.sending import Answer, post
from apps.notifications.webhooks.signing import headers_of

ENDPOINT_MAX = 4
ORGANISATION_MAX = 4
ENDPOINTS_LOOKED_AT = 200
CLAIMED = timedelta(seconds=settings.WEBHOOK_SECONDS + 50)  # well beyond the deadline of one attempt
PROMPT = timedelta(seconds=2)
DISABLE_AFTER = timedelta(days=3)
LONGEST_ENDPOINT_PAUSE = timedelta(hours=1)
LOCK = 0x7A6B0064  # an advisory lock: one dispatcher counts and claims at a time

log = structlog.get_logger("webhooks")

Send = Callable[[UUID, int], None]  # (delivery, number of the attempt)
Clock = Callable[[], datetime]


@dataclass
class _Room:
    """How many more messages may be on their way: altogether, in the lane of the unproven, and for each receiver."""

    left: int
    unproven_left: int
    endpoints: Counter[UUID] = field(default_factory=Counter)
    organisations: Counter[UUID] = field(default_factory=Counter)

    def take(self, endpoint_id: UUID, organisation_id: UUID, *, proven: bool) -> None:
        """One message is on its way."""
        self.left -= 1
        self.unproven_left -= not proven
        self.endpoints[endpoint_id] += 1
        self.organisations[organisation_id] += 1

    def of(self, endpoint: WebhookEndpoint) -> int:
        """How many more messages this endpoint may be sent now."""
        proven = _is_proven(endpoint.failures, endpoint.prompt_at)
        return min(
            (ENDPOINT_MAX if proven else 1) - self.endpoints[endpoint.pk],
            ORGANISATION_MAX - self.organisations[endpoint.organisation_id],
            self.left if proven else min(self.left, self.unproven_left),
        )


def _is_proven(failures: int, prompt_at: datetime | None) -> bool:
    return failures == 0 and prompt_at is not None


def deliveries_offer(*, now: datetime, send: Send) -> int:
    """Claim what is due and may go now, and `send` each claim; returns how many. Any number of processes may do this.

    A claim that `send` could not hand over is due again when it ends.
    """
    claims = _claim(now)
    for delivery_id, attempt in claims:
        try:
            send(delivery_id, attempt)
        except Exception as error:  # noqa: BLE001 - the broker is away; what was claimed is sent later
            log.warning("webhook_not_queued", delivery=str(delivery_id), error=f"{type(error).__name__}: {error}")
    return len(claims)


@transaction.atomic
def _claim(now: datetime) -> list[tuple[UUID, int]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    room, claims = _room(now), []
    answering = Q(failures=0, prompt_at__isnull=False)
    for lane in (answering, ~answering):
        for endpoint in _endpoints_due(now).filter(lane)[:ENDPOINTS_LOOKED_AT]:
            for delivery in _due(now).filter(endpoint=endpoint).order_by("next_at", "id")[: max(0, room.of(endpoint))]:
                delivery.attempts, delivery.claimed_until = delivery.attempts + 1, now + CLAIMED
                delivery.save(update_fields=["attempts", "claimed_until"])
                proven = _is_proven(endpoint.failures, endpoint.prompt_at)
                room.take(endpoint.pk, endpoint.organisation_id, proven=proven)
                claims.append((delivery.pk, delivery.attempts))
                WebhookEndpoint.objects.filter(pk=endpoint.pk).update(last_attempt_at=now)
    return claims


def _room(now: datetime) -> _Room:
    """What is on its way fills the places."""
    places = settings.WEBHOOK_CONCURRENCY
    room = _Room(left=places, unproven_left=places // 2)
    flying = WebhookDelivery.objects.filter(_is_open(), claimed_until__gt=now, claimed_until__lte=now + CLAIMED)
    columns = ("endpoint_id", "endpoint__organisation_id", "endpoint__failures", "endpoint__prompt_at")
    for endpoint_id, organisation_id, failures, prompt_at in flying.values_list(*columns):
        room.take(endpoint_id, organisation_id, proven=_is_proven(failures, prompt_at))
    return room


def _is_open() -> Q:
    return Q(delivered_at=None, dead_at=None)


def _due(now: datetime) -> QuerySet[WebhookDelivery]:
    """Messages whose time has come and that nobody is sending. A time beyond the longest pause comes from a clock that
    was set back: it is over."""
    is_time = Q(next_at__lte=now) | Q(next_at__gt=now + LONGEST_PAUSE)
    is_free = Q(claimed_until=None) | Q(claimed_until__lte=now) | Q(claimed_until__gt=now + CLAIMED)
    return WebhookDelivery.objects.filter(_is_open(), is_time, is_free)


def _endpoints_due(now: datetime) -> QuerySet[WebhookEndpoint]:
    """Endpoints to which something is due, those first that have waited longest."""
    longest = now + LONGEST_ENDPOINT_PAUSE
    is_awake = Q(paused_until=None) | Q(paused_until__lte=now) | Q(paused_until__gt=longest)
    found = WebhookEndpoint.objects.filter(is_awake, Exists(_due(now).filter(endpoint=OuterRef("pk"))))
    return found.filter(is_active=True, deleted_at=None).order_by(F("last_attempt_at").asc(nulls_first=True), "id")


def delivery_send(*, delivery_id: UUID, attempt: int, clock: Clock) -> bool:
    """Make one claimed attempt; True when it arrived. A claim that is over, or another's, is left alone.

    The request is signed with the time at which it is made, and no lock is held while the receiver answers.
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
    answer = post(delivery.endpoint.url, body=body, headers=signed)
    _note(delivery, answer, started=started, now=clock())
    return answer.is_success


@transaction.atomic
def _note(sent: WebhookDelivery, answer: Answer, *, started: datetime, now: datetime) -> None:
    """What came of an attempt, for the message and for its endpoint."""
    endpoint = WebhookEndpoint.objects.select_for_update().get(pk=sent.endpoint_id)
    delivery = WebhookDelivery.objects.select_for_update().get(pk=sent.pk)
    WebhookAttempt.objects.create(
        delivery=delivery, at=started, status=answer.status, answer=answer.text, error=answer.error
    )
    delivery.claimed_until = None
    if answer.is_success:
        delivery.delivered_at = now
    elif delivery.attempts >= ATTEMPTS_MAX:
        delivery.dead_at = now
    else:
        delivery.next_at = now + pause_after(max(delivery.attempts, 1))
    delivery.save(update_fields=["claimed_until", "next_at", "delivered_at", "dead_at"])
    if answer.is_success:
        endpoint.failures, endpoint.failing_since, endpoint.paused_until = 0, None, None
        endpoint.prompt_at = now if now - started <= PROMPT else None
        endpoint.save(update_fields=["failures", "failing_since", "paused_until", "prompt_at"])
    else:
        _endpoint_failed(endpoint, answer, now)


def _endpoint_failed(endpoint: WebhookEndpoint, answer: Answer, now: datetime) -> None:
    """Back the endpoint off; after three days without success switch it off and say so."""
    if answer.is_overloaded:
        endpoint.failures += 1
        endpoint.paused_until = now + pause_after(endpoint.failures, longest=LONGEST_ENDPOINT_PAUSE)
    if endpoint.failing_since is None:
        endpoint.failing_since = now
    elif now - endpoint.failing_since >= DISABLE_AFTER and endpoint.is_active:
        endpoint.is_active, endpoint.disabled_at = False, now
        payload: dict[str, Any] = {"endpoint": str(endpoint.pk)}
        outbox_write(organisation_id=endpoint.organisation_id, topic="webhook.disabled", payload=payload, now=now)
    endpoint.save(update_fields=["failures", "paused_until", "failing_since", "is_active", "disabled_at"])
