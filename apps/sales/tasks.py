"""Periodic work of the sales room."""

from celery import shared_task
from django.utils import timezone

from apps.sales.services import contracts_close_due


@shared_task(name="apps.sales.tasks.contracts_close", queue="default")
def contracts_close() -> int:
    """Close contracts that are used up or over."""
    return contracts_close_due(now=timezone.now())
