"""Periodic work of the ledger."""

from celery import shared_task
from django.utils import timezone

from apps.ledger.chain import roots_store
from apps.ledger.services import holds_expire_due


@shared_task(name="apps.ledger.tasks.store_roots", queue="default")
def store_roots() -> int:
    """Store the roots of days that are over."""
    return roots_store(now=timezone.now())


@shared_task(name="apps.ledger.tasks.expire_holds", queue="default")
def expire_holds() -> int:
    """Release the rest of holds that have expired."""
    return holds_expire_due(now=timezone.now())
