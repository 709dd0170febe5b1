"""Tasks of the notifications room."""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.accounts.broker import task_send
from apps.notifications.notices.services import compiles_tell
from apps.notifications.notices.services import notices_sweep as sweep
from apps.notifications.webhooks.delivering import deliveries_offer, delivery_send


@shared_task(name="apps.notifications.tasks.webhooks_send", queue="webhooks", ignore_result=True)
def webhooks_send() -> None:
    """Claim the messages to customers' addresses that are due, a task for each."""
    deliveries_offer(now=timezone.now(), send=_webhook_enqueue)


@shared_task(name="apps.notifications.tasks.webhook_send", queue="webhooks", ignore_result=True)
def webhook_send(*, delivery_id: str, attempt: int) -> None:
    """One attempt; its place goes to the next message that is due."""
    delivery_send(delivery_id=UUID(delivery_id), attempt=attempt, clock=timezone.now)
    deliveries_offer(now=timezone.now(), send=_webhook_enqueue)


def _webhook_enqueue(delivery_id: UUID, attempt: int) -> None:
    task_send(webhook_send.name, queue="webhooks", delivery_id=str(delivery_id), attempt=attempt)


@shared_task(name="apps.notifications.tasks.notices_write", queue="default", ignore_result=True)
def notices_write() -> None:
    """Tell people about work that has ended."""
    compiles_tell(now=timezone.now())


@shared_task(name="apps.notifications.tasks.notices_sweep", queue="default", ignore_result=True)
def notices_sweep() -> None:
    """Delete old notices."""
    sweep(now=timezone.now())
