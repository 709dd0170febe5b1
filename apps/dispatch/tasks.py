"""The Celery tasks of dispatch. A task may be delivered twice, so services check the state and epoch first."""

from __future__ import annotations

from uuid import UUID

from celery import Task, shared_task
from django.utils import timezone

from apps.dispatch import evaluations, execution, measurement, services

LEASE_SECONDS_MAX = 1800


@shared_task(bind=True, name="apps.dispatch.tasks.run_lease", ignore_result=True, time_limit=LEASE_SECONDS_MAX)
def run_lease(self: Task[..., None], *, lease_id: str, epoch: int) -> None:
    """Run one lease on this worker."""
    host = (self.request.hostname or "unknown").split("@")[0]
    execution.lease_execute(lease_id=UUID(lease_id), epoch=epoch, host=host, clock=timezone.now)


@shared_task(name="apps.dispatch.tasks.advance_job", queue="dispatch", ignore_result=True)
def advance_job(*, job_id: str) -> None:
    """Advance a job whose leases are all done."""
    services.job_advance(job_id=UUID(job_id), now=timezone.now())


@shared_task(name="apps.dispatch.tasks.offer_due", queue="dispatch", ignore_result=True)
def offer_due() -> None:
    """Offer the leases whose device time has come."""
    services.leases_offer_due(now=timezone.now())


@shared_task(name="apps.dispatch.tasks.sweep", queue="dispatch", ignore_result=True)
def sweep() -> None:
    """Recover leases from silent workers, and advance jobs without live leases."""
    services.leases_reoffer_silent(now=timezone.now())
    services.jobs_advance_due(now=timezone.now())


@shared_task(name="apps.dispatch.tasks.evaluations_take_up", queue="dispatch", ignore_result=True)
def evaluations_take_up() -> None:
    """Create the jobs of requested evaluations, and finish the evaluations whose jobs have ended."""
    evaluations.evaluations_judge(now=timezone.now())
    evaluations.evaluations_start(now=timezone.now())


@shared_task(name="apps.dispatch.tasks.measure_due", queue="dispatch", ignore_result=True)
def measure_due() -> None:
    """Request measurements of programs that have no recent measurement on a host pool."""
    measurement.measurements_request_due(now=timezone.now())


@shared_task(name="apps.dispatch.tasks.measure_host", ignore_result=True, time_limit=LEASE_SECONDS_MAX)
def measure_host(*, program_id: str, pool_slug: str) -> None:
    """Measure one program on this host. Ten seconds, after a large model has been loaded, which takes minutes."""
    measurement.host_measure(program_id=UUID(program_id), pool_slug=pool_slug, now=timezone.now())


@shared_task(name="apps.dispatch.tasks.files_sweep", ignore_result=True)
def files_sweep() -> None:
    """Delete files that belong to no job."""
    services.job_files_sweep(now=timezone.now())
