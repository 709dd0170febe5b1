"""Celery tasks of the registry; each task calls one service."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.accounts.broker import task_send
from apps.registry import services

MESSAGE_SECONDS = 5  # between two sweeps


@shared_task(name="apps.registry.tasks.uploads_sweep")
def uploads_sweep() -> int:
    """Remove expired uploads."""
    return services.uploads_sweep(now=timezone.now())


@shared_task(name="apps.registry.tasks.upload_check", queue="check", ignore_result=True)
def upload_check() -> None:
    """Check the next upload in the queue, then request the next check."""
    if services.upload_check_next(clock=timezone.now):
        task_send(upload_check.name, queue="check")


@shared_task(name="apps.registry.tasks.checks_sweep", ignore_result=True)
def checks_sweep() -> None:
    """Request checks for waiting uploads, in case a message was lost."""
    services.checks_sweep(now=timezone.now(), send=_ask)


def _ask() -> None:
    task_send(upload_check.name, queue="check", expires=MESSAGE_SECONDS)


@shared_task(name="apps.registry.tasks.files_sweep", ignore_result=True)
def files_sweep() -> None:
    """Delete files that no row refers to."""
    services.model_files_sweep(now=timezone.now())
