"""Periodic work of the billing room."""

from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.accounts.broker import task_send
from apps.billing import outbox
from apps.billing.checking import TASK, ledger_check_run, ledger_checks_due
from apps.billing.draft_keeping import TASK as DRAFT
from apps.billing.draft_keeping import draft_make as draft_made
from apps.billing.draft_keeping import drafts_due
from apps.billing.services import dunning_run, grants_expire, guarantees_credit_due, invoices_issue_month
from apps.billing.stripe.closing import closings_tend
from apps.billing.stripe.collecting import pushes_tend
from apps.billing.stripe.customers import client_of_settings
from apps.billing.stripe.events import event_handle, events_catch_up
from apps.billing.stripe.reconciling import check_run
from apps.billing.stripe.turns import in_turn
from apps.billing.webhooks.delivering import deliveries_offer, delivery_send


@shared_task(name="apps.billing.tasks.month_invoices", queue="default")
def month_invoices() -> int:
    """Issue the invoices of the month that is over; does nothing when they are issued."""
    return invoices_issue_month(now=timezone.now())


@shared_task(name="apps.billing.tasks.outbox_deliver", queue="default")
def outbox_deliver() -> int:
    """Hand on what money has to tell others; what talks to a network is left to the queues below."""
    now = timezone.now()
    return outbox.rows_hand_on(now=now) + outbox.works_carry_out(now=now, queue="default")


@shared_task(name="apps.billing.tasks.outbox_mail", queue="mail")
def outbox_mail() -> int:
    """Send the mails that are due."""
    return outbox.works_carry_out(now=timezone.now(), queue="mail")


@shared_task(name="apps.billing.tasks.outbox_stripe", queue="stripe")
def outbox_stripe() -> int:
    """Tell Stripe what is due."""
    return outbox.works_carry_out(now=timezone.now(), queue="stripe")


@shared_task(name="apps.billing.tasks.dunning", queue="default")
def dunning() -> int:
    """Remind of what is overdue, by the schedule of the settings."""
    return dunning_run(now=timezone.now())


@shared_task(name="apps.billing.tasks.webhooks_send", queue="webhooks", ignore_result=True)
def webhooks_send() -> None:
    """Claim the messages to customers' addresses that are due, a task for each."""
    deliveries_offer(now=timezone.now(), send=_webhook_enqueue)


@shared_task(name="apps.billing.tasks.webhook_send", queue="webhooks", ignore_result=True)
def webhook_send(*, delivery_id: str, attempt: int) -> None:
    """One attempt; its place goes to the next message that is due."""
    delivery_send(delivery_id=UUID(delivery_id), attempt=attempt, clock=timezone.now)
    deliveries_offer(now=timezone.now(), send=_webhook_enqueue)


def _webhook_enqueue(delivery_id: UUID, attempt: int) -> None:
    task_send(webhook_send.name, queue="webhooks", delivery_id=str(delivery_id), attempt=attempt)


@shared_task(name="apps.billing.tasks.credits_tend", queue="default")
def credits_tend() -> int:
    """Credit missed guarantees, end what has expired."""
    now = timezone.now()
    return guarantees_credit_due(now=now) + grants_expire(now=now)


@shared_task(name=TASK, queue="books", ignore_result=True)
def ledger_check(*, check_id: str) -> None:
    """A check of a customer's history that somebody asked for."""
    ledger_check_run(check_id=UUID(check_id), clock=timezone.now)


@shared_task(name="apps.billing.tasks.ledger_checks", queue="books", ignore_result=True)
def ledger_checks() -> None:
    """Check histories that grew, and what was asked for and lost."""
    ledger_checks_due(now=timezone.now(), clock=timezone.now)


@shared_task(name=DRAFT, queue="books", ignore_result=True)
def draft_make(*, organisation_id: str, currency: str) -> None:
    """A draft over much usage that somebody asked for."""
    draft_made(organisation_id=UUID(organisation_id), currency=currency, clock=timezone.now)


@shared_task(name="apps.billing.tasks.drafts", queue="books", ignore_result=True)
def drafts() -> None:
    """Make drafts anew of what grew, and what was asked for and lost."""
    drafts_due(now=timezone.now(), clock=timezone.now)


@shared_task(name="apps.billing.tasks.stripe_event", queue="stripe")
def stripe_event(*, event_id: str) -> bool:
    """Handle an event that Stripe has delivered."""
    return event_handle(event_id=event_id, client=client_of_settings(), now=timezone.now())


@shared_task(name="apps.billing.tasks.stripe_tend", queue="stripe")
def stripe_tend() -> int:
    """Bring invoices that wait and catch up on events; does nothing without a key."""
    if not settings.STRIPE_API_KEY:
        return 0
    client, now = client_of_settings(), timezone.now()
    turns = (pushes_tend, events_catch_up, closings_tend)
    return sum(in_turn([turn], lambda one: one(client=client, now=now)) for turn in turns)


@shared_task(name="apps.billing.tasks.stripe_check", queue="stripe")
def stripe_check() -> int:
    """Compare our sums with Stripe's; returns the number of differences. Does nothing without a key."""
    if not settings.STRIPE_API_KEY:
        return 0
    return len(check_run(client=client_of_settings(), now=timezone.now()).differences)
