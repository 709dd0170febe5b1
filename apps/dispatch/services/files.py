"""Files of jobs that nobody accepted."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.files import files_sweep
from apps.dispatch.models import Job


def job_files_sweep(*, now: datetime) -> int:
    """Delete files of jobs that are not there; returns how many."""
    return files_sweep("jobs", _named, now=now)


def _named(keys: list[str]) -> list[str]:
    owners = {key: UUID(key.split("/")[1]) for key in keys}
    there = set(Job.objects.filter(pk__in=owners.values()).values_list("pk", flat=True))
    return [key for key, owner in owners.items() if owner in there]
