"""The Celery tasks of the compilation app. Each task calls one service."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.compilation import services


@shared_task(name="apps.compilation.tasks.compile_run", queue="compile")
def compile_run(*, job_id: str) -> None:
    """Compile one job. Safe if the message is delivered twice."""
    services.job_run(job_id=UUID(job_id), clock=timezone.now)


@shared_task(name="apps.compilation.tasks.jobs_sweep")
def jobs_sweep() -> int:
    """Requeue lost jobs."""
    return len(services.jobs_sweep(now=timezone.now(), send=services.compile_send))


@shared_task(name="apps.compilation.tasks.files_sweep", ignore_result=True)
def files_sweep() -> None:
    """Delete files that no row refers to."""
    services.program_files_sweep(now=timezone.now())
