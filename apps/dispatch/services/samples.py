"""Sample jobs: the history of a demo. Sample jobs are placed, rated and posted like other jobs, but no worker executes
them.

A worker would count exactly what the compiler proved, so leases are completed with the program's proven counts. Sample
jobs exist only in an organisation marked as sample data, before the instant at which its sample data ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from apps.accounts.counters import number_next
from apps.accounts.models import NumberKind, User
from apps.accounts.services import audit_record
from apps.compilation.models import Program
from apps.compilation.selectors import program_resources
from apps.dispatch import contracts
from apps.dispatch.models import Job, JobState, Lease, LeaseState, StageState
from apps.dispatch.services.metering import usage_of
from apps.dispatch.services.stages import stage_create, stage_place
from apps.ledger.services import usage_post
from apps.sales.models import Contract
from apps.sales.services import contract_executions_take

HOST = "sample data"


class SampleOrder(NamedTuple):
    """An order for a sample job: a contract, a program, the number of items, the submitter and the time of submission."""

    contract: Contract
    program: Program
    items: int
    actor: User
    at: datetime


@transaction.atomic
def sample_jobs_run(orders: Sequence[SampleOrder]) -> list[Job]:
    """Place the jobs in the order of submission, then complete their leases in the order of their ends.

    Raises ValueError if the organisation is not marked as sample data at the time of a job. Raises Problem if the
    contract or its pool does not allow a job.
    """
    jobs = [_placed(order) for order in sorted(orders, key=lambda one: one.at)]
    leases = Lease.objects.filter(stage__job__in=jobs, state=LeaseState.PLANNED).order_by("device_to", "id")
    of = {job.pk: job for job in jobs}
    related = "device__pool", "stage__program__model_version__model"
    for lease in leases.select_related(*related):
        _completed(lease, of[lease.stage.job_id])
    for job in jobs:
        _finished(job)
    return jobs


def _placed(order: SampleOrder) -> Job:
    contract, now = order.contract, order.at
    if not contract.organisation.is_sample_at(now):
        raise ValueError(f"{contract.organisation} is not marked as sample data at {now:%Y-%m-%d %H:%M}")
    contracts.description_check(contract, order.program)
    contract_executions_take(
        contract_id=contract.pk,
        program_digest=order.program.digest,
        count=order.items,
        now=now,
        program=order.program,
    )
    job = Job.objects.create(
        organisation_id=contract.organisation_id,
        number=number_next(organisation_id=contract.organisation_id, kind=NumberKind.JOB),
        contract=contract,
        submitted_by=order.actor,
        items=order.items,
        is_sample=True,
        submitted_at=now,
    )
    stage_place(stage=stage_create(job=job, position=0, program=order.program, count=order.items), now=now)
    audit_record(
        action="job.submit",
        subject=f"job {job.pk}",
        actor=order.actor,
        organisation=contract.organisation,
        now=now,
        detail={"contract": str(contract.pk), "items": order.items, "program": order.program.digest, "sample": True},
    )
    return job


def _completed(lease: Lease, job: Job) -> None:
    counters = program_resources(lease.stage.program)
    usage_post(usage_of(lease=lease, job=job, counters=counters, now=lease.device_to), now=lease.device_to)
    lease.state, lease.host, lease.counters = LeaseState.DONE, HOST, counters
    lease.offered_at = lease.taken_at = lease.device_from
    lease.heartbeat_at = lease.finished_at = lease.device_to
    lease.progress = lease.count
    lease.save()


def _finished(job: Job) -> None:
    ends = Lease.objects.filter(stage__job=job).order_by("device_from")
    first, last = ends.first(), ends.last()
    assert first is not None
    assert last is not None
    job.stages.update(state=StageState.DONE)
    job.state, job.started_at, job.finished_at = JobState.DONE, first.device_from, last.device_to
    job.save(update_fields=["state", "started_at", "finished_at"])
