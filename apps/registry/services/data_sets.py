"""Check and store labelled data sets, and delete them on request."""

from __future__ import annotations

from datetime import datetime
from typing import Any, BinaryIO
from uuid import uuid4

from django.db import transaction

from apps.accounts.files import file_drop_on_commit, file_save, file_transaction
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.registry.feeds import InputError, Limits
from apps.registry.feeds.check import Array
from apps.registry.labelled import Labelled, digest_of, labelled_read
from apps.registry.models import DataSet

LIMITS = Limits()
MOST = 200  # data sets of an organisation
SEED_MAX = 2**63 - 1


def dataset_add(
    *,
    organisation: Organisation,
    file: BinaryIO,
    size: int,
    name: str,
    seed: int,
    choose_percent: int,
    actor: User,
    now: datetime,
) -> tuple[DataSet, bool]:
    """Check and store a .npz file as a data set. Return the data set, and whether the data set is new.

    `choose_percent` (1 to 99) is the percentage of items for choosing. Raises Problem with every fault.
    """
    if size > LIMITS.file_bytes:
        detail = (
            f"The file is {size:,} bytes long; the maximum is {LIMITS.file_bytes:,}. Send a random sample of the items."
        )
        raise Problem(413, "File too large", detail, kind="inputs-too-large")
    if not 1 <= choose_percent <= 99 or not 0 <= seed <= SEED_MAX:
        detail = "The seed must be 0 or more. The share of items for tuning must be from 1 to 99 %."
        raise Problem(422, "Impossible split", detail, kind="split-invalid")
    try:
        found = labelled_read(file, LIMITS)
    except InputError as error:
        errors = [{"message": sentence} for sentence in error.problems]
        raise Problem(
            422, "The data set cannot be used", " ".join(error.problems), kind="data-set-invalid", errors=errors
        ) from error
    return _keep(organisation, found, name.strip() or "Data set", seed, choose_percent, actor, now)


def _keep(
    organisation: Organisation, found: Labelled, name: str, seed: int, choose_percent: int, actor: User, now: datetime
) -> tuple[DataSet, bool]:
    data, pk = found.to_bytes(), uuid4()
    digest, choose = digest_of(data), min(max(1, found.items * choose_percent // 100), found.items - 1)
    with file_transaction():
        # The lock keeps two uploads of the same bytes from both being new.
        Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
        present = DataSet.objects.filter(organisation=organisation, deleted_at=None)
        known = present.filter(digest=digest, seed=seed, choose=choose).first()
        if known is not None:
            return known, False
        if present.count() >= MOST:
            detail = f"An organisation can have at most {MOST} data sets. Delete one first."
            raise Problem(422, "Too many data sets", detail, kind="too-many-data-sets")
        row = DataSet.objects.create(
            id=pk,
            organisation=organisation,
            name=name[:120],
            digest=digest,
            items=found.items,
            inputs=[_value(key, array) for key, array in found.inputs.items()],
            label_shape=None if found.labels is None else list(found.labels.shape[1:]),
            classes=0 if found.labels is None else int(found.labels.max()) + 1,
            seed=seed,
            choose=choose,
            size=len(data),
            storage_key=file_save(f"datasets/{pk}.npz", data),
            created_by=actor,
            created_at=now,
        )
        audit_record(action="data-set.add", now=now, actor=actor, organisation=organisation, subject=row.name)
    return row, True


def _value(name: str, array: Array) -> dict[str, Any]:
    return {"name": name, "dtype": str(array.dtype), "shape": list(array.shape[1:])}


@transaction.atomic
def dataset_delete(*, data_set: DataSet, actor: User, now: datetime) -> None:
    """Delete the file of a data set. Evaluations on the data set are kept."""
    row = DataSet.objects.select_for_update().get(pk=data_set.pk)
    if row.deleted_at is None:
        row.deleted_at = now
        row.save(update_fields=["deleted_at"])
        file_drop_on_commit(row.storage_key)
        audit_record(action="data-set.delete", now=now, actor=actor, organisation=row.organisation, subject=row.name)
