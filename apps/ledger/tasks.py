"""Celery tasks of the ledger."""

from celery import shared_task
from django.utils import timezone

from apps.ledger.chain import roots_store
from apps.ledger.services import holds_expire_due


@shared_task(name="apps.ledger.tasks.store_roots", queue="default")
def store_roots() -> int:
    """Store the missing roots of past days."""
    return roots_store(now=timezone.now())


@shared_task(name="apps.ledger.tasks.expire_holds", queue="default")
def expire_holds() -> int:
    """Release the remainder of expired holds."""
    return holds_expire_due(now=timezone.now())
