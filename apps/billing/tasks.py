"""Periodic work of the billing room."""

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.billing import outbox
from apps.billing.services import dunning_run, grants_expire, guarantees_credit_due, invoices_issue_month
from apps.billing.stripe.closing import closings_tend
from apps.billing.stripe.collecting import pushes_tend
from apps.billing.stripe.customers import client_of_settings
from apps.billing.stripe.events import event_handle, events_catch_up
from apps.billing.stripe.reconciling import check_run
from apps.billing.webhooks.services import deliveries_send


@shared_task(name="apps.billing.tasks.month_invoices", queue="default")
def month_invoices() -> int:
    """Issue the invoices of the month that is over; does nothing when they are issued."""
    return invoices_issue_month(now=timezone.now())


@shared_task(name="apps.billing.tasks.outbox_deliver", queue="default")
def outbox_deliver() -> int:
    """Hand on what money has to tell others."""
    return outbox.outbox_deliver(now=timezone.now())


@shared_task(name="apps.billing.tasks.dunning", queue="default")
def dunning() -> int:
    """Remind of what is overdue, by the schedule of the settings."""
    return dunning_run(now=timezone.now())


@shared_task(name="apps.billing.tasks.webhooks_send", queue="default")
def webhooks_send() -> int:
    """Send the messages to customers' addresses that are due."""
    return deliveries_send(now=timezone.now())


@shared_task(name="apps.billing.tasks.credits_tend", queue="default")
def credits_tend() -> int:
    """Credit missed guarantees, end what has expired."""
    now = timezone.now()
    return guarantees_credit_due(now=now) + grants_expire(now=now)


@shared_task(name="apps.billing.tasks.stripe_event", queue="default")
def stripe_event(*, event_id: str) -> bool:
    """Handle an event that Stripe has delivered."""
    return event_handle(event_id=event_id, client=client_of_settings(), now=timezone.now())


@shared_task(name="apps.billing.tasks.stripe_tend", queue="default")
def stripe_tend() -> int:
    """Bring invoices that wait and catch up on events; does nothing without a key."""
    if not settings.STRIPE_API_KEY:
        return 0
    client, now = client_of_settings(), timezone.now()
    brought = pushes_tend(client=client, now=now)
    return brought + events_catch_up(client=client, now=now) + closings_tend(client=client, now=now)


@shared_task(name="apps.billing.tasks.stripe_check", queue="default")
def stripe_check() -> int:
    """Compare our sums with Stripe's; returns the number of differences. Does nothing without a key."""
    if not settings.STRIPE_API_KEY:
        return 0
    return len(check_run(client=client_of_settings(), now=timezone.now()).differences)
