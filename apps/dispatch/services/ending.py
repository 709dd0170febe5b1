"""Ends jobs early and revokes their leases."""

from __future__ import annotations

from datetime import datetime

import structlog

from apps.dispatch.models import LIVE, Job, JobState, Lease, LeaseState
from apps.dispatch.services.outputs import outputs_assemble
from apps.sales.services import contract_executions_return

log = structlog.get_logger("dispatch")


def job_end(*, job: Job, state: JobState, problem: str, now: datetime) -> None:
    """End a job early and revoke its live leases. The caller must hold the job's lock.

    Executions that did not run are returned to the contract.
    """
    for lease in Lease.objects.select_for_update().filter(stage__job=job, state__in=LIVE):
        lease_revoke(lease=lease, now=now)
    for stage in job.stages.select_related("program"):
        done = sum(stage.leases.filter(state=LeaseState.DONE).values_list("count", flat=True))
        if done < stage.count:
            contract_executions_return(
                contract_id=job.contract_id, program_digest=stage.program.digest, count=stage.count - done, now=now
            )
    job.state, job.problem, job.finished_at = state, problem, now
    job.outputs_key = outputs_assemble(job)
    job.save(update_fields=["state", "problem", "finished_at", "outputs_key"])
    log.info("job ended", job=str(job.pk), state=state.value, problem=problem)


def lease_revoke(*, lease: Lease, now: datetime) -> None:
    """Revoke a lease permanently. The caller must hold the job's lock."""
    lease.state, lease.finished_at, lease.epoch = LeaseState.REVOKED, now, lease.epoch + 1
    lease.save(update_fields=["state", "finished_at", "epoch"])
