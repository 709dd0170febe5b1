"""Delete stored files that no database row refers to."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.files import files_sweep
from apps.registry.models import DataSet, ModelVersion, Upload


def model_files_sweep(*, now: datetime) -> int:
    """Delete the files of versions, data sets and uploads that no longer exist. Return the number of deleted files."""
    kinds = (("models", _models), ("datasets", _data_sets), ("uploads", _uploads))
    return sum(files_sweep(folder, there, now=now) for folder, there in kinds)


def _models(keys: list[str]) -> list[str]:
    rows = ModelVersion.objects.filter(storage_key__in=keys, deleted_at=None)
    return list(rows.values_list("storage_key", flat=True))


def _uploads(keys: list[str]) -> list[str]:
    owners = {key: UUID(key.split("/")[1]) for key in keys}
    there = set(Upload.objects.filter(pk__in=owners.values()).values_list("pk", flat=True))
    return [key for key, owner in owners.items() if owner in there]


def _data_sets(keys: list[str]) -> list[str]:
    rows = DataSet.objects.filter(storage_key__in=keys, deleted_at=None)
    return list(rows.values_list("storage_key", flat=True))
