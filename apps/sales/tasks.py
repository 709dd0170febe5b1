"""Periodic tasks of sales."""

from celery import shared_task
from django.utils import timezone

from apps.sales.services import contracts_close_due, contracts_review_due, plan_holds_end_due, standing_serve_all
from apps.sales.services import standing_serve as serve


@shared_task(name="apps.sales.tasks.contracts_close", queue="default")
def contracts_close() -> int:
    """Close contracts that are used up or have ended."""
    return contracts_close_due(now=timezone.now())


@shared_task(name="apps.sales.tasks.contracts_review", queue="default")
def contracts_review() -> int:
    """Propose revisions of contracts that could cost less or could still meet their deadline."""
    return contracts_review_due(now=timezone.now())


@shared_task(name="apps.sales.tasks.plan_holds_end", queue="default")
def plan_holds_end() -> int:
    """Release the expired holds of plans."""
    return plan_holds_end_due(now=timezone.now())


@shared_task(name="apps.sales.tasks.standing_serve", queue="default")
def standing_serve(*, pool: str) -> int:
    """Offer the free time of a pool to waiting requests."""
    return serve(pool=pool, now=timezone.now())


@shared_task(name="apps.sales.tasks.standing_sweep", queue="default")
def standing_sweep() -> int:
    """End expired requests, and serve every pool that has waiting requests."""
    return standing_serve_all(now=timezone.now())
