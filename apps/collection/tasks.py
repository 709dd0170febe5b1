"""Tasks of the collection room."""

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.collection.closing import closings_tend
from apps.collection.collecting import pushes_tend
from apps.collection.customers import client_of_settings
from apps.collection.events import event_handle, events_catch_up
from apps.collection.reconciling import check_run
from apps.collection.turns import in_turn


@shared_task(name="apps.collection.tasks.stripe_event", queue="stripe")
def stripe_event(*, event_id: str) -> bool:
    """Handle an event that Stripe has delivered."""
    return event_handle(event_id=event_id, client=client_of_settings(), now=timezone.now())


@shared_task(name="apps.collection.tasks.stripe_tend", queue="stripe")
def stripe_tend() -> int:
    """Bring invoices that wait and catch up on events; does nothing without a key."""
    if not settings.STRIPE_API_KEY:
        return 0
    client, now = client_of_settings(), timezone.now()
    turns = (pushes_tend, events_catch_up, closings_tend)
    return sum(in_turn([turn], lambda one: one(client=client, now=now)) for turn in turns)


@shared_task(name="apps.collection.tasks.stripe_check", queue="stripe")
def stripe_check() -> int:
    """Compare our sums with Stripe's; returns the number of differences. Does nothing without a key."""
    if not settings.STRIPE_API_KEY:
        return 0
    return len(check_run(client=client_of_settings(), now=timezone.now()).differences)
