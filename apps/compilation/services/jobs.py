"""Creates, cancels, retries and compares compiles."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.broker import task_send, task_send_on_commit
from apps.accounts.files import file_save, file_transaction
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation import selectors, stages
from apps.compilation.calibration import FILE_BYTES_MAX
from apps.compilation.models import CompileJob, CompileRequest, Precision, Program
from apps.compilation.services.options import options_check
from apps.registry.models import ModelVersion

UNFINISHED_MAX = 50
COMPILE_TASK = "apps.compilation.tasks.compile_run"


@file_transaction()
def job_create(
    *,
    version: ModelVersion,
    target: str,
    actor: User,
    now: datetime,
    precision: str = Precision.FLOAT32,
    dims: dict[str, Any] | None = None,
    constants: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    calibration: bytes | None = None,
    compares_with: Program | None = None,
    request: CompileRequest | None = None,
) -> CompileJob:
    """Queue the compile of a version for a target. `dims` gives one size or a list of sizes for each variable
    dimension.

    `options` are those of `options_of`; with a context, the sizes that the caches fix are left out of `dims`.
    `calibration` is an optional .npz file with the example inputs stacked along the first axis. Raises Problem(422) for
    missing or invalid sizes or options, and Problem(429) if too many compiles are queued.
    """
    options = options or {}
    chosen = dims_checked(version, dims or {}, are_complete="context" not in options)
    options_check(version, options)
    _place_check(version.organisation, target, precision)
    _constants_check(version, constants or {})
    calibration_key, calibration_digest = _calibration_keep(version, precision, calibration, compares_with)
    organisation: Organisation = version.organisation
    _queue_check(organisation)
    job = CompileJob.objects.create(
        organisation=organisation,
        model_version=version,
        created_by=actor,
        request=request,
        target=target,
        precision=precision,
        dims=chosen,
        constants=constants or {},
        options=options,
        calibration_key=calibration_key,
        calibration_digest=calibration_digest,
        stages=[stages.waiting(bucket, narrow=precision != Precision.FLOAT32) for bucket in stages.buckets_of(chosen)],
        compares_with=compares_with,
        heartbeat_at=now,
        created_at=now,
    )
    audit_record(
        action="compile.request",
        now=now,
        actor=actor,
        organisation=organisation,
        subject=f"{version} for {target} in {precision}"[:120],
    )
    _send(job)
    return job


def _place_check(organisation: Organisation, target: str, precision: str) -> None:
    known = selectors.target_names(organisation)
    if target not in known:
        raise Problem(422, "No such target", f"Choose one of: {', '.join(known)}.", kind="target-unknown")
    if precision not in Precision.values:
        raise Problem(422, "No such precision", f"Choose one of: {', '.join(Precision.values)}.", kind="precision")


def compiles_room(organisation: Organisation) -> int:
    """Return the number of further compiles that the organisation may queue; 0 if the queue is full."""
    waiting = CompileJob.objects.filter(
        organisation=organisation, state__in=[CompileJob.State.QUEUED, CompileJob.State.RUNNING]
    )
    return max(0, UNFINISHED_MAX - waiting.count())


def _queue_check(organisation: Organisation) -> None:
    if not compiles_room(organisation):
        raise Problem(
            429,
            "Too many compiles",
            f"{UNFINISHED_MAX} compiles are waiting. Cancel some compiles, or try again when some have finished.",
            kind="too-many-compiles",
        )


def _calibration_keep(
    version: ModelVersion, precision: str, data: bytes | None, compares_with: Program | None
) -> tuple[str, str]:
    if compares_with is not None:
        return compares_with.compile_job.calibration_key, compares_with.calibration_digest
    if not data or precision == Precision.FLOAT32:
        return "", ""
    if len(data) > FILE_BYTES_MAX:
        detail = (
            f"The calibration file is {len(data):,} bytes; at most {FILE_BYTES_MAX:,} are allowed. Send fewer items."
        )
        raise Problem(413, "File too large", detail, kind="file-too-large")
    digest = sha256(data).hexdigest()
    same = CompileJob.objects.filter(organisation=version.organisation, calibration_digest=digest)
    key = same.exclude(calibration_key="").values_list("calibration_key", flat=True).first()
    return key or file_save(f"calibrations/{version.organisation_id}/{digest}.npz", data), digest


def _send(job: CompileJob) -> None:
    task_send_on_commit(COMPILE_TASK, queue="compile", job_id=str(job.pk))


def compile_send(job_id: UUID) -> bool:
    """Send a queued job to a worker. Return False if the broker is unavailable."""
    return task_send(COMPILE_TASK, queue="compile", job_id=str(job_id))


def dims_checked(version: ModelVersion, stated: dict[str, Any], *, are_complete: bool = True) -> dict[str, Any]:
    """Check the given sizes, and return them sorted. `are_complete`: every variable dimension needs a size. Raises Problem(422)
    with one entry for each fault.
    """
    wanted = [row["name"] for row in version.symbolic_dims]
    missing = _missing(wanted, stated) if are_complete else []
    errors = [*missing, *_unknown(wanted, stated), *_impossible(wanted, stated)]
    if not errors and len(stages.buckets_of(stated)) > stages.BUCKETS_MAX:
        errors.append(
            {"field": "dims", "message": f"At most {stages.BUCKETS_MAX} combinations of sizes can be compiled at once."}
        )
    if errors:
        detail = " ".join(error["message"] for error in errors)
        raise Problem(422, "Sizes are missing or invalid", detail, kind="dimensions", errors=errors)
    return {name: sorted(set(value)) if isinstance(value, list) else value for name, value in sorted(stated.items())}


def _missing(wanted: list[str], stated: dict[str, Any]) -> list[dict[str, str]]:
    text = "Enter a size for the dimension {!r}: a whole number, or several separated by commas."
    return [{"field": name, "message": text.format(name)} for name in wanted if name not in stated]


def _unknown(wanted: list[str], stated: dict[str, Any]) -> list[dict[str, str]]:
    text = "The model has no variable dimension {!r}."
    return [{"field": name, "message": text.format(name)} for name in stated if name not in wanted]


def _impossible(wanted: list[str], stated: dict[str, Any]) -> list[dict[str, str]]:
    text = f"The size of {{!r}} must be a whole number from 1 to {stages.SIZE_MAX:,}; it is {{!r}}."
    return [
        {"field": name, "message": text.format(name, value)}
        for name in wanted
        if name in stated
        for value in _several(stated[name])
        if not _is_size(value)
    ]


def _several(stated: Any) -> list[Any]:
    return stated if isinstance(stated, list) and stated else [stated]


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= stages.SIZE_MAX


def _constants_check(version: ModelVersion, constants: dict[str, Any]) -> None:
    unknown = sorted(set(constants) - {value["name"] for value in version.inputs})
    if unknown:
        raise Problem(
            422,
            "No such input",
            f"The model has no input {unknown[0]!r}. Each constant must have the name of a model input.",
            kind="input-unknown",
        )


@transaction.atomic
def job_cancel(*, job: CompileJob, actor: User, now: datetime) -> CompileJob:
    """Cancel a compile. A finished job stays unchanged."""
    locked = CompileJob.objects.select_for_update().get(pk=job.pk)
    if locked.is_finished:
        return locked
    locked.state, locked.finished_at = CompileJob.State.CANCELLED, now
    locked.save(update_fields=["state", "finished_at"])
    audit_record(
        action="compile.cancel", now=now, actor=actor, organisation=locked.organisation, subject=f"compile {locked.pk}"
    )
    return locked


@transaction.atomic
def job_retry(*, job: CompileJob, actor: User, now: datetime) -> CompileJob:
    """Queue a failed or cancelled compile again. Finished programs are kept.

    Raises Problem(409) if the compile is in any other state, or if the model was deleted.
    """
    locked = CompileJob.objects.select_for_update().get(pk=job.pk)
    if locked.state not in {CompileJob.State.FAILED, CompileJob.State.CANCELLED}:
        raise Problem(
            409, "Nothing to retry", "Only a failed or cancelled compile can be started again.", kind="nothing-to-retry"
        )
    if locked.model_version.deleted_at is not None:
        raise Problem(409, "Model deleted", "The model was deleted. Upload it again.", kind="file-gone")
    locked.state, locked.error, locked.stage, locked.attempts = CompileJob.State.QUEUED, None, "", 0
    locked.epoch, locked.heartbeat_at, locked.finished_at, locked.started_at = locked.epoch + 1, now, None, None
    narrow = locked.precision != Precision.FLOAT32
    locked.stages = [
        bucket if bucket["program"] else stages.waiting(bucket["dims"], narrow=narrow) for bucket in locked.stages
    ]
    locked.save()
    audit_record(
        action="compile.retry", now=now, actor=actor, organisation=locked.organisation, subject=f"compile {locked.pk}"
    )
    _send(locked)
    return locked


def job_compare(*, program: Program, actor: User, now: datetime) -> CompileJob:
    """Queue a second compile of a program's model, to check that both compiles give the same bytes."""
    if program.model_version.deleted_at is not None:
        raise Problem(
            409,
            "Model deleted",
            "The model was deleted. To compile again and compare, upload the model.",
            kind="file-gone",
        )
    return job_create(
        version=program.model_version,
        target=program.target,
        precision=program.precision,
        dims=program.dims,
        constants=program.constants,
        options=program.options,
        compares_with=program,
        actor=actor,
        now=now,
    )
