"""Runs a compile in a resource-limited child process and sends heartbeats.

Each run has its own epoch, which fences earlier runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F, Q

from apps.accounts.beating import beating
from apps.accounts.outages import Unavailable, told_when_back, unavailable_of
from apps.compilation import selectors, stages
from apps.compilation.models import CompileJob, CompileState, Program
from apps.compilation.services.jobs import compile_send
from apps.compilation.services.keeping import NotDeterministic, program_compare, program_keep
from apps.registry.child import Child, ChildFailed, Limits, child_start, work_file
from apps.registry.selectors import modelversion_save

LIMITS = Limits(
    memory=settings.COMPILE_MEMORY_BYTES,
    cpu=settings.COMPILE_SECONDS_MAX,
    wall=settings.COMPILE_SECONDS_MAX + 30,
    file=max(2**30, 2 * settings.UPLOAD_BYTES_MAX),
)
SILENT_AFTER = timedelta(seconds=15)
WAITING_AFTER = timedelta(seconds=60)  # longer than any job waits next to an idle worker
IDLE_AFTER = timedelta(seconds=10)
ATTEMPTS_MAX = 3
POLL_SECONDS = 0.25
BEAT_SECONDS = 0.5

Clock = Callable[[], datetime]
log = structlog.get_logger("compilation")

_ENDINGS = {
    "memory": f"Compiling needed more than {LIMITS.memory // 2**30} GiB of memory. Choose smaller sizes or a smaller model.",
    "time": f"Compiling took longer than {LIMITS.wall} seconds. Choose smaller sizes or a smaller model.",
    "killed": "The operating system stopped the compile. Start the compile again; nothing was lost.",
    "defect": "The compiler failed unexpectedly. The error is in our log. Nothing was lost.",
}


class Fenced(Exception):
    """Raised if the job was cancelled or taken over. The worker must stop without writing."""


class Failed(Exception):
    """Raised if the compile failed. `error` holds the error as data for the page."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.error = error


def job_run(*, job_id: UUID, clock: Clock) -> None:
    """Compile every unfinished bucket of a job. Does nothing if another worker is running the job."""
    epoch = _claim(job_id, clock())
    if epoch is None:
        return
    job = CompileJob.objects.select_related("model_version", "compares_with").get(pk=job_id)
    try:
        with work_file() as model:
            with beating(lambda: _alive(job, epoch, clock)):
                modelversion_save(job.model_version, model)
            for index, bucket in enumerate(job.stages):
                if not bucket["program"]:
                    _bucket_run(job, epoch, index, model, clock)
        _finish(job, epoch, CompileJob.State.DONE, clock())
    except Fenced:
        log.info("compile_fenced", job=str(job_id), epoch=epoch)
    except (Failed, NotDeterministic) as error:
        _finish(job, epoch, CompileJob.State.FAILED, clock(), error.error)
    except FileNotFoundError:
        _finish(job, epoch, CompileJob.State.FAILED, clock(), _missing(job))
    except (Unavailable, DatabaseError, OSError) as outage:
        if unavailable_of(outage) is None:
            raise
        _release(job, epoch, outage, clock)


def _missing(job: CompileJob) -> dict[str, Any]:
    job.model_version.refresh_from_db(fields=["deleted_at"])
    if job.model_version.deleted_at is not None:
        return {"kind": "deleted", "message": "The model file was deleted."}
    log.error("compile_file_missing", job=str(job.pk))
    text = "A file of this compile is no longer in our storage. Upload the model again; this is our fault, not yours."
    return {"kind": "missing", "message": text}


def _release(job: CompileJob, epoch: int, outage: Exception, clock: Clock) -> None:
    # The attempt does not count. If the database stays unavailable, the sweep notices the missing heartbeat.
    log.warning("compile_released", job=str(job.pk), error=str(outage)[:200])
    owned = CompileJob.objects.filter(pk=job.pk, epoch=epoch, state=CompileJob.State.RUNNING)
    told_when_back(
        lambda: owned.update(state=CompileJob.State.QUEUED, attempts=F("attempts") - 1, heartbeat_at=clock())
    )
    compile_send(job.pk)  # lost, the sweep hands it out


@transaction.atomic
def _claim(job_id: UUID, now: datetime) -> int | None:
    job = CompileJob.objects.select_for_update().filter(pk=job_id).first()
    if job is None or job.is_finished:
        return None
    if job.state == CompileJob.State.RUNNING and job.heartbeat_at is not None and now < job.heartbeat_at + SILENT_AFTER:
        return None
    job.epoch += 1
    job.attempts += 1
    if job.attempts > ATTEMPTS_MAX:
        job.state, job.finished_at = CompileJob.State.FAILED, now
        text = (
            f"The compile was interrupted {ATTEMPTS_MAX} times. Start the compile again. If it is interrupted again, "
            "choose smaller sizes."
        )
        job.error = {"kind": "interrupted", "message": text}
        job.save(update_fields=["epoch", "attempts", "state", "finished_at", "error"])
        return None
    job.state, job.heartbeat_at, job.started_at = CompileJob.State.RUNNING, now, job.started_at or now
    job.save(update_fields=["epoch", "attempts", "state", "heartbeat_at", "started_at"])
    return job.epoch


def _write(job: CompileJob, epoch: int, **fields: Any) -> None:
    rows = CompileJob.objects.filter(pk=job.pk, epoch=epoch, state=CompileJob.State.RUNNING)
    if rows.update(**fields) == 0:
        raise Fenced


def _alive(job: CompileJob, epoch: int, clock: Clock) -> None:
    # Whoever writes next notices that the job was cancelled or taken over.
    with suppress(Fenced):
        _write(job, epoch, heartbeat_at=clock())


def _bucket_run(job: CompileJob, epoch: int, index: int, model: Path, clock: Clock) -> None:
    bucket = job.stages[index]
    request = {
        "target": job.target,
        "target_text": selectors.target_text(job),
        "precision": job.precision,
        "dims": bucket["dims"],
        "constants": job.constants,
        "options": job.options,
        "buckets": len(job.stages),
        "bytes_max": settings.UPLOAD_BYTES_MAX,
    }
    files: dict[str, bytes | Path] = {"model.onnx": model}
    if job.calibration_key:
        files["calibration.npz"] = selectors.calibration_bytes(job)
    with child_start("apps.compilation.child", request=request, files=files, limits=LIMITS) as child:
        try:
            _watch(job, epoch, index, child, clock)
            answer = child.answer()
        except ChildFailed as error:
            log.warning("compile_child_failed", job=str(job.pk), reason=error.reason, stderr=error.stderr)
            _show(job, epoch, index, child.folder, clock, ended="failed")
            raise Failed({"kind": error.reason, "message": _ENDINGS[error.reason]}) from error
        if "error" in answer:
            _show(job, epoch, index, child.folder, clock, ended="failed")
            raise Failed(answer["error"])
        _keep(job, epoch, index, child.folder, answer["program"], clock)


def _watch(job: CompileJob, epoch: int, index: int, child: Child, clock: Clock) -> None:
    shown = 0.0
    while not child.poll():
        if time.monotonic() - shown >= BEAT_SECONDS:
            shown = time.monotonic()
            _show(job, epoch, index, child.folder, clock)
        time.sleep(POLL_SECONDS)


def _show(job: CompileJob, epoch: int, index: int, folder: Path, clock: Clock, *, ended: str = "") -> None:
    bucket = stages.advance(job.stages[index], _marks(folder), time.time(), ended=ended)
    job.stages[index] = bucket
    _write(job, epoch, stages=job.stages, stage=stages.current(bucket), heartbeat_at=clock())


def _marks(folder: Path) -> list[tuple[str, float]]:
    # An incomplete last line is left for the next read.
    path = folder / "progress"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [(name, float(at)) for name, _, at in (line.partition(" ") for line in lines)]


def _keep(job: CompileJob, epoch: int, index: int, folder: Path, facts: dict[str, Any], clock: Clock) -> None:
    marks = [*_marks(folder), ("price", time.time())]
    bucket = stages.advance(job.stages[index], marks, time.time())
    job.stages[index] = bucket
    _write(job, epoch, stages=job.stages, stage="price", heartbeat_at=clock())
    if job.compares_with is not None:
        program: Program | None = job.compares_with
        with beating(lambda: _alive(job, epoch, clock)):
            comparison = program_compare(program=job.compares_with, facts=facts, binary=folder / selectors.BINARY)
        _write(job, epoch, comparison=comparison)
    else:
        with beating(lambda: _alive(job, epoch, clock)):
            program = program_keep(job=job, epoch=epoch, dims=bucket["dims"], folder=folder, facts=facts, now=clock())
    if program is None:
        raise Fenced
    price = selectors.price_preview(program, now=clock())
    bucket = stages.advance(bucket, marks, time.time(), ended="done")
    shown = {name: format(value, "f") if isinstance(value, Decimal) else value for name, value in (price or {}).items()}
    job.stages[index] = {**bucket, "program": str(program.pk), "price": shown or None}
    job.program_ids = [*job.program_ids, program.pk]
    _write(job, epoch, stages=job.stages, program_ids=job.program_ids, heartbeat_at=clock())


def _finish(
    job: CompileJob, epoch: int, state: CompileState, now: datetime, error: dict[str, Any] | None = None
) -> None:
    rows = CompileJob.objects.filter(pk=job.pk, epoch=epoch, state=CompileJob.State.RUNNING)
    rows.update(state=state, error=error, finished_at=now)


@transaction.atomic
def jobs_sweep(*, now: datetime, send: Callable[[UUID], object]) -> list[UUID]:
    """Requeue jobs without a recent heartbeat, and return the ids of these jobs."""
    state = CompileJob.State
    is_busy = CompileJob.objects.filter(state=state.RUNNING, heartbeat_at__gt=now - SILENT_AFTER).exists()
    silent = Q(state=state.RUNNING, heartbeat_at__lte=now - SILENT_AFTER) | Q(
        state=state.QUEUED, heartbeat_at__lte=now - (WAITING_AFTER if is_busy else IDLE_AFTER)
    )
    rows = CompileJob.objects.select_for_update(skip_locked=True).filter(silent).order_by("created_at")
    found = list(rows.values_list("pk", flat=True)[:100])
    CompileJob.objects.filter(pk__in=found).update(state=state.QUEUED, heartbeat_at=now)
    for pk in found:
        transaction.on_commit(partial(send, pk), robust=True)
    return found
