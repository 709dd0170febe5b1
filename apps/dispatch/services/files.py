"""Deletes files that belong to no job."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.files import files_sweep
from apps.dispatch.models import Job


def job_files_sweep(*, now: datetime) -> int:
    """Delete the files of jobs that do not exist. Return the number of deleted files."""
    return files_sweep("jobs", _owned, now=now)


def _owned(keys: list[str]) -> list[str]:
    owners = {key: UUID(key.split("/")[1]) for key in keys}
    existing = set(Job.objects.filter(pk__in=owners.values()).values_list("pk", flat=True))
    return [key for key, owner in owners.items() if owner in existing]
