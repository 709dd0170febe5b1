"""How far compiles that were asked for together have come, as a page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.compilation import selectors
from apps.compilation.models import CompileJob, CompileRequest, CompileState


@dataclass(frozen=True)
class Row:
    """One program that is compiled: its job, its sizes, its stages, and the program once it is there."""

    job: CompileJob
    bucket: dict[str, Any]
    elapsed: timedelta | None

    @property
    def done(self) -> int:
        """The stages that are done."""
        return sum(stage["state"] == "done" for stage in self.bucket["stages"])

    @property
    def now(self) -> str:
        """The stage that runs; empty if none does."""
        return next((str(one["name"]) for one in self.bucket["stages"] if one["state"] == "running"), "")


@dataclass(frozen=True)
class Progress:
    """The rows of a request, its log, and the programs made so far."""

    rows: list[Row]
    log: list[tuple[datetime, str]]
    is_finished: bool

    @property
    def programs(self) -> list[UUID]:
        """The programs that are there, in the order of the rows."""
        return [row.bucket["program"] for row in self.rows if row.bucket["program"]]

    @property
    def failed(self) -> list[CompileJob]:
        """The jobs that ended without a program, each once."""
        ended = {CompileState.FAILED, CompileState.CANCELLED}
        return list({row.job.pk: row.job for row in self.rows if row.job.state in ended}.values())


def request_progress(request: CompileRequest, *, now: datetime) -> Progress:
    """The state of every program of a request at `now`."""
    jobs = selectors.jobs_of_request(request)
    rows = [Row(job, bucket, _elapsed(job, bucket, now)) for job in jobs for bucket in job.stages]
    log = sorted((entry for job in jobs for entry in _log(job)), key=lambda entry: entry[0])
    return Progress(rows, log, all(job.is_finished for job in jobs))


def _elapsed(job: CompileJob, bucket: dict[str, Any], now: datetime) -> timedelta | None:
    """What the stages of a program took; while none has begun, how long its job has run."""
    taken = [Decimal(stage["seconds"]) for stage in bucket["stages"] if stage["seconds"] is not None]
    if taken:
        return timedelta(seconds=float(sum(taken)))
    return (job.finished_at or now) - job.started_at if job.started_at else None


def _log(job: CompileJob) -> list[tuple[datetime, str]]:
    """What happened to a job: when it was queued and started, when each stage ended, and how it ended."""
    name = f"{job.target}, {job.precision}"
    found = [(job.created_at, f"{name}: queued")]
    if job.started_at is None:
        return found
    at = job.started_at
    found.append((at, f"{name}: started" + (f", attempt {job.attempts}" if job.attempts > 1 else "")))
    for bucket in job.stages:
        sizes = "".join(f", {size} = {value}" for size, value in bucket["dims"].items())
        for stage in bucket["stages"]:
            if stage["seconds"] is not None and stage["state"] in {"done", "failed"}:
                at += timedelta(seconds=float(Decimal(stage["seconds"])))
                found.append((at, f"{name}{sizes}: {stage['name']} {stage['state']} after {stage['seconds']} s"))
    if job.finished_at:
        found.append((max(job.finished_at, at), f"{name}: {str(job.get_state_display()).lower()}"))
    return found
