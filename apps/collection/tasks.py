"""The Celery tasks of the collection app."""

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.collection.customers import client_of_settings
from apps.collection.events import event_handle, events_catch_up
from apps.collection.locking import run_each
from apps.collection.push import push_due
from apps.collection.push_changes import changes_push_due
from apps.collection.reconciliation import check_run


@shared_task(name="apps.collection.tasks.stripe_event", queue="stripe")
def stripe_event(*, event_id: str) -> bool:
    """Handle a delivered event."""
    return event_handle(event_id=event_id, client=client_of_settings(), now=timezone.now())


@shared_task(name="apps.collection.tasks.stripe_tend", queue="stripe")
def stripe_tend() -> int:
    """Push invoices and their changes, and catch up on events. Does nothing without an API key."""
    if not settings.STRIPE_API_KEY:
        return 0
    client, now = client_of_settings(), timezone.now()
    steps = (push_due, events_catch_up, changes_push_due)
    return sum(run_each([step], lambda run: run(client=client, now=now)) for step in steps)


@shared_task(name="apps.collection.tasks.stripe_check", queue="stripe")
def stripe_check() -> int:
    """Compare the ledger with Stripe, and return the number of differences. Does nothing without an API key."""
    if not settings.STRIPE_API_KEY:
        return 0
    return len(check_run(client=client_of_settings(), now=timezone.now()).differences)
