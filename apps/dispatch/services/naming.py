"""Sets the customer's own names for jobs."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.accounts.counters import name_clean
from apps.accounts.models import User
from apps.accounts.services import audit_record
from apps.dispatch.models import Job


@transaction.atomic
def job_rename(*, job_id: UUID, name: str, actor: User | None, now: datetime) -> Job:
    """Set the name of a job. An empty name removes the current name. Raises Problem(422) if the name is invalid."""
    name = name_clean(name)
    job = Job.objects.select_for_update(no_key=True).get(pk=job_id)
    if name == job.name:
        return job
    before, job.name = job.name, name
    job.save(update_fields=["name"])
    audit_record(
        action="job.rename",
        subject=f"job {job.pk}",
        actor=actor,
        organisation=job.organisation,
        now=now,
        detail={"from": before, "to": name},
    )
    return job
