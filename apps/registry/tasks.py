"""Celery tasks of the registry; each calls one service."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.registry import services


@shared_task(name="apps.registry.tasks.uploads_sweep")
def uploads_sweep() -> int:
    """Remove what nobody finished."""
    return services.uploads_sweep(now=timezone.now())
