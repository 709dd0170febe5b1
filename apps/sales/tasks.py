"""Periodic work of the sales room."""

from celery import shared_task
from django.utils import timezone

from apps.sales.services import contracts_close_due, plan_holds_end_due


@shared_task(name="apps.sales.tasks.contracts_close", queue="default")
def contracts_close() -> int:
    """Close contracts that are used up or over."""
    return contracts_close_due(now=timezone.now())


@shared_task(name="apps.sales.tasks.plan_holds_end", queue="default")
def plan_holds_end() -> int:
    """Release what is held for plans no longer."""
    return plan_holds_end_due(now=timezone.now())
