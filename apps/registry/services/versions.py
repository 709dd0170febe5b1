"""Add and delete model versions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.db import IntegrityError, transaction
from django.db.models import Max, ProtectedError

from apps.accounts.files import file_drop_on_commit, file_save, file_transaction
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.registry import selectors
from apps.registry.models import Model, ModelVersion, Project
from apps.registry.packages import HEAD_BYTES, package_is
from apps.registry.services.checking import model_check
from apps.registry.services.evaluations import evaluation_record

# Rooms above say why a version must stay (an active contract on it, say); each answers a sentence or None.
KEEPERS: list[Callable[[ModelVersion], str | None]] = []


def project_ensure(*, organisation: Organisation, name: str, now: datetime) -> Project:
    """Return the organisation's project named `name`, creating the project if necessary."""
    clean = name.strip() or "Default"
    return Project.objects.get_or_create(organisation=organisation, name=clean, defaults={"created_at": now})[0]


def model_file_add(
    *,
    organisation: Organisation,
    actor: User,
    name: str,
    filename: str,
    project_name: str,
    data: bytes | Path,
    now: datetime,
    report: dict[str, Any] | None = None,
    beat: Callable[[], None] = lambda: None,
) -> tuple[ModelVersion, bool]:
    """Check a file in a limited child process and store it as the next version of the model `name`. `data` is the file's bytes
    or its path; the file is a model, or an archive of a model with its side files.

    If `report` is given, the file is not checked. Returns the version, and whether the version is new. Raises
    Problem(422) with every problem of the file.
    """
    digest, size, head = _measured(data)
    known = selectors.version_of_digest(organisation=organisation, sha256=digest)
    if known is not None:
        return known, False
    report = report or model_check(data, beat=beat)
    key = f"models/{organisation.pk}/{digest}{'.archive' if package_is(head) else '.onnx'}"
    try:
        with file_transaction():
            stored = _file_save(key, data)
            version = _version_create(
                organisation=organisation,
                actor=actor,
                name=name.strip() or report["name"] or "model",
                project_name=project_name,
                facts={"sha256": digest, "size": size, "filename": filename[:200], "storage_key": stored},
                report=report,
                now=now,
            )
    except IntegrityError:
        # Two uploads of the same bytes at the same moment: the first has won, and its file is the one that stays.
        known = selectors.version_of_digest(organisation=organisation, sha256=digest)
        if known is None:
            raise
        return known, False
    return version, True


def _measured(data: bytes | Path) -> tuple[str, int, bytes]:
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest(), len(data), data[:HEAD_BYTES]
    with data.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), data.stat().st_size, head


def _file_save(key: str, data: bytes | Path) -> str:
    if isinstance(data, bytes):
        return file_save(key, data)
    with data.open("rb") as file:
        return file_save(key, File(file))


def _version_create(
    *,
    organisation: Organisation,
    actor: User,
    name: str,
    project_name: str,
    facts: dict[str, Any],
    report: dict[str, Any],
    now: datetime,
) -> ModelVersion:
    project = project_ensure(organisation=organisation, name=project_name, now=now)
    model, _ = Model.objects.get_or_create(
        organisation=organisation, name=name[:120], defaults={"project": project, "created_at": now}
    )
    Model.objects.select_for_update().get(pk=model.pk)
    number = (model.versions.aggregate(last=Max("number"))["last"] or 0) + 1
    version = ModelVersion.objects.create(
        organisation=organisation,
        model=model,
        number=number,
        opset=report["opset"],
        producer=report["producer"],
        description=report["description"],
        parameters=report["parameters"],
        inputs=report["inputs"],
        outputs=report["outputs"],
        symbolic_dims=report["symbolic_dims"],
        operators=report["operators"],
        created_by=actor,
        created_at=now,
        **facts,
    )
    audit_record(
        action="model.add",
        now=now,
        actor=actor,
        organisation=organisation,
        subject=f"{name} v{number}"[:120],
        detail={"sha256": facts["sha256"], "size": facts["size"]},
    )
    return version


def sample_add(*, organisation: Organisation, actor: User, slug: str, now: datetime) -> ModelVersion:
    """Add a sample model with its evaluation. Raises Problem(404) if the sample is unknown."""
    sample = next((sample for sample in selectors.SAMPLES if sample.slug == slug), None)
    if sample is None:
        names = ", ".join(known.slug for known in selectors.SAMPLES)
        raise Problem(404, "No such sample", f"The samples are {names}.", kind="sample-unknown")
    data = sample.model_path.read_bytes()
    version, _ = model_file_add(
        organisation=organisation,
        actor=actor,
        name=sample.slug,
        filename=sample.model_path.name,
        project_name="Default",
        data=data,
        now=now,
        report=selectors.report_of_digest(hashlib.sha256(data).hexdigest()),
    )
    if not version.evaluations.filter(program_digest="").exists():
        evaluation_record(version=version, document=sample.evaluation(), actor=actor, now=now)
    return version


def version_delete(*, version: ModelVersion, actor: User, now: datetime) -> None:
    """Delete a version's file permanently. The row is kept if programs were made from the version. Raises Problem(409)
    if the file is still needed.
    """
    for keeper in KEEPERS:
        reason = keeper(version)
        if reason:
            raise Problem(409, "This file is still needed", reason, kind="version-in-use")
    with transaction.atomic():
        locked = ModelVersion.objects.select_for_update().get(pk=version.pk)
        if locked.deleted_at is not None:
            return
        key = locked.storage_key
        locked.evaluations.all().delete()
        try:
            with transaction.atomic():
                model = locked.model
                locked.delete()
                if not model.versions.exists():
                    model.delete()
        except ProtectedError:
            locked.state, locked.deleted_at = ModelVersion.State.DELETED, now
            locked.save(update_fields=["state", "deleted_at"])
        audit_record(
            action="model.delete", now=now, actor=actor, organisation=version.organisation, subject=str(version)[:120]
        )
        file_drop_on_commit(key)
