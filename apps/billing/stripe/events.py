"""Stripe's events: verified, kept before they are handled, and read only as word that something may have changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import stripe
from django.conf import settings
from django.db import transaction

from apps.accounts.failpoints import failpoint
from apps.accounts.problems import Problem
from apps.billing.models import StripeCustomer, StripeEvent
from apps.billing.stripe.catalogue import EVENTS
from apps.billing.stripe.gateway import Uncertain, called

OVERLAP = timedelta(hours=1)  # events are listed by the second of their making, and may be listed late


def event_receive(*, body: bytes, signature: str, now: datetime) -> str:
    """Keep a delivery whose signature is right; returns its id. Raises Problem (400) for any other.

    Without a secret nothing is taken: anybody could sign with an empty one.
    """
    if not settings.STRIPE_WEBHOOK_SECRET:
        raise Problem(400, "No endpoint", "STRIPE_WEBHOOK_SECRET is not set, so no event is taken.", kind="signature")
    try:
        event = stripe.Webhook.construct_event(body, signature, settings.STRIPE_WEBHOOK_SECRET)
    except (ValueError, stripe.SignatureVerificationError) as error:
        raise Problem(400, "Not from Stripe", "The signature does not fit the body.", kind="signature") from error
    event_keep(event.to_dict(), now=now)
    failpoint("webhook.stored")
    return str(event.id)


def event_keep(event: dict[str, Any], *, now: datetime, listed: bool = False) -> None:
    """Store an event once; a repetition changes nothing but that it was `listed`."""
    row = StripeEvent(
        id=event["id"], type=event["type"], payload=event, received_at=now,
        created=datetime.fromtimestamp(event["created"], UTC),
    )  # fmt: skip
    StripeEvent.objects.bulk_create([row], ignore_conflicts=True)
    if listed:
        StripeEvent.objects.filter(pk=event["id"], listed_at=None).update(listed_at=now)


@transaction.atomic
def event_handle(*, event_id: str, client: stripe.StripeClient, now: datetime, again: bool = False) -> bool:
    """Bring us to Stripe's present state of what the event names; True when it is handled. Safe to repeat.

    `again` handles one that was handled before, which changes nothing that is right.
    """
    event = StripeEvent.objects.select_for_update().get(pk=event_id)
    if event.handled_at is not None and not again:
        return True
    event.attempts += 1
    try:
        with transaction.atomic():
            _apply(event, client=client, now=now)
        failpoint("webhook.handled")
    except (Uncertain, stripe.StripeError, Problem) as error:
        event.error = f"{type(error).__name__}: {error}"[:400]
    else:
        event.handled_at, event.error = now, ""
    event.save(update_fields=["attempts", "error", "handled_at"])
    return event.handled_at is not None


def _apply(event: StripeEvent, *, client: stripe.StripeClient, now: datetime) -> None:
    look = EVENTS.get(event.type)
    if look is not None:
        look(event.payload["data"]["object"], client, now)


def _listed_until() -> datetime | None:
    """The newest event that a list has shown: what was delivered after a gap says nothing of the gap.

    Before the first list it is when our first customer was made; None while there is none.
    """
    listed = StripeEvent.objects.exclude(listed_at=None).order_by("-created").values_list("created", flat=True).first()
    return listed or StripeCustomer.objects.order_by("created_at").values_list("created_at", flat=True).first()


def events_catch_up(*, client: stripe.StripeClient, now: datetime) -> int:
    """List what may have been missed, then handle everything that waits, oldest first; returns how many were handled."""
    since = _listed_until()
    if since is not None:
        given: Any = {"limit": 100, "created": {"gte": int((since - OVERLAP).timestamp())}}
        for event in called(lambda: list(client.v1.events.list(given).auto_paging_iter())):
            event_keep(event.to_dict(), now=now, listed=True)
    waiting = StripeEvent.objects.filter(handled_at=None).order_by("created", "id").values_list("pk", flat=True)
    return sum(event_handle(event_id=one, client=client, now=now) for one in list(waiting))
