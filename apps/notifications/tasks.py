"""Celery tasks of notifications."""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.accounts.broker import task_send
from apps.notifications.notices.services import compile_notices_send
from apps.notifications.notices.services import notices_sweep as sweep
from apps.notifications.webhooks.delivering import deliveries_offer, delivery_send


@shared_task(name="apps.notifications.tasks.webhooks_send", queue="webhooks", ignore_result=True)
def webhooks_send() -> None:
    """Claim the due webhook messages, and queue a task for each message."""
    deliveries_offer(now=timezone.now(), send=_webhook_enqueue)


@shared_task(name="apps.notifications.tasks.webhook_send", queue="webhooks", ignore_result=True)
def webhook_send(*, delivery_id: str, attempt: int) -> None:
    """Make one attempt to send a webhook message, then queue the messages that are due."""
    delivery_send(delivery_id=UUID(delivery_id), attempt=attempt, clock=timezone.now)
    deliveries_offer(now=timezone.now(), send=_webhook_enqueue)


def _webhook_enqueue(delivery_id: UUID, attempt: int) -> None:
    task_send(webhook_send.name, queue="webhooks", delivery_id=str(delivery_id), attempt=attempt)


@shared_task(name="apps.notifications.tasks.notices_write", queue="default", ignore_result=True)
def notices_write() -> None:
    """Write notices about compiles that have ended."""
    compile_notices_send(now=timezone.now())


@shared_task(name="apps.notifications.tasks.notices_sweep", queue="default", ignore_result=True)
def notices_sweep() -> None:
    """Delete old notices."""
    sweep(now=timezone.now())
