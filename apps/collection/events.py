"""Events from Stripe, verified and stored before they are handled.

An event is only a hint that an object may have changed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import stripe
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from apps.accounts.failpoints import failpoint
from apps.accounts.problems import Problem
from apps.collection.catalogue import EVENTS
from apps.collection.event_parsing import event_read, storable
from apps.collection.gateway import OutcomeUnknown, call_with_retry
from apps.collection.locking import run_each
from apps.collection.models import StripeCustomer, StripeEvent
from apps.invoicing.outbox import pause_after

OVERLAP = timedelta(hours=1)  # events are listed by the second of their creation, and can appear late
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=6)  # between attempts at an event that failed
SIGNED_SECONDS = stripe.Webhook.DEFAULT_TOLERANCE  # the maximum age of a signature
GONE = "The object no longer exists at Stripe."

log = structlog.get_logger("stripe")


def event_receive(*, body: bytes, signature: str, now: datetime) -> str:
    """Store an event with a valid signature, and return its id.

    Raises Problem(400) if the signature or the body is not valid, or if no signing secret is configured.
    """
    if not settings.STRIPE_WEBHOOK_SECRET:
        raise Problem(400, "No endpoint", "STRIPE_WEBHOOK_SECRET is not set, so events are refused.", kind="signature")
    try:
        text = body.decode()
        stripe.WebhookSignature.verify_header(text, signature, settings.STRIPE_WEBHOOK_SECRET, SIGNED_SECONDS)
    except (ValueError, TypeError, stripe.SignatureVerificationError) as error:
        raise Problem(400, "Not from Stripe", "The signature does not match the body.", kind="signature") from error
    event = event_read(body)
    event_keep(event, now=now)
    failpoint("webhook.stored")
    return str(event["id"])


def event_keep(event: dict[str, Any], *, now: datetime, listed: bool = False) -> None:
    """Store an event once. For a stored event, only `listed_at` can change."""
    row = StripeEvent(
        id=event["id"],
        type=event["type"],
        payload=storable(event),
        received_at=now,
        created=datetime.fromtimestamp(event["created"], UTC),
    )
    StripeEvent.objects.bulk_create([row], ignore_conflicts=True)
    if listed:
        StripeEvent.objects.filter(pk=event["id"], listed_at=None).update(listed_at=now)


@transaction.atomic
def event_handle(*, event_id: str, client: stripe.StripeClient, now: datetime, again: bool = False) -> bool:
    """Fetch the object that an event names, and update our records. Return whether the event was handled.

    Safe to repeat. If `again` is True, an event that was already handled is handled again.
    """
    event = StripeEvent.objects.select_for_update().get(pk=event_id)
    if event.handled_at is not None and not again:
        return True
    event.attempts += 1
    try:
        with transaction.atomic():
            event.handled_at, event.error = now, _apply(event, client=client, now=now)
        failpoint("webhook.handled")
    except OutcomeUnknown as outage:  # retried by the next run
        _retry_later(event, outage, now)
    except Exception as error:
        log.exception("stripe.event_failed", event_id=event.pk, type=event.type)
        _retry_later(event, error, now + pause_after(event.attempts, first=FIRST_PAUSE, longest=LONGEST_PAUSE))
    event.save(update_fields=["attempts", "error", "handled_at", "next_at"])
    return event.handled_at is not None


def _retry_later(event: StripeEvent, error: Exception, next_at: datetime) -> None:
    event.handled_at, event.next_at = None, next_at
    event.error = f"{type(error).__name__}: {error}"[:400]


def _apply(event: StripeEvent, *, client: stripe.StripeClient, now: datetime) -> str:
    look = EVENTS.get(event.type)
    name = event.payload["data"]["object"].get(look.field) if look is not None else None
    if look is None or name is None:
        return ""
    try:
        look.fetch(name, client, now)
    except stripe.InvalidRequestError as refusal:
        if refusal.http_status != 404:
            raise
        return GONE
    return ""


def _listed_until() -> datetime | None:
    # Delivered events do not count, because they do not prove that earlier events arrived.
    listed = StripeEvent.objects.exclude(listed_at=None).order_by("-created").values_list("created", flat=True).first()
    return listed or StripeCustomer.objects.order_by("created_at").values_list("created_at", flat=True).first()


def events_catch_up(*, client: stripe.StripeClient, now: datetime) -> int:
    """Fetch missed events from Stripe, then handle all due events. Return the number of handled events."""
    since = _listed_until()
    if since is not None:
        given: Any = {"limit": 100, "created": {"gte": int((since - OVERLAP).timestamp())}}
        for event in call_with_retry(lambda: list(client.v1.events.list(given).auto_paging_iter())):
            event_keep(event.to_dict(), now=now, listed=True)
    return run_each(events_due(now=now), lambda name: event_handle(event_id=name, client=client, now=now))


def events_due(*, now: datetime) -> list[str]:
    """Return the ids of the due events: new events, oldest first, then events that failed before."""
    is_due = Q(next_at=None) | Q(next_at__lte=now) | Q(next_at__gt=now + LONGEST_PAUSE)
    waiting = StripeEvent.objects.filter(is_due, handled_at=None)
    return list(waiting.order_by(F("next_at").asc(nulls_first=True), "created", "id").values_list("pk", flat=True))
