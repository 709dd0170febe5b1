"""The progress of compiles that were requested together, as shown on a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.compilation import selectors
from apps.compilation.dimensions import sizes_text
from apps.compilation.models import CompileJob, CompileRequest, CompileState
from apps.figures import duration_format


@dataclass(frozen=True)
class Row:
    """One program that is being compiled: its job, its sizes and its stages. The program is added once it exists."""

    job: CompileJob
    bucket: dict[str, Any]
    elapsed: timedelta | None

    @property
    def done(self) -> int:
        """Return the number of finished stages."""
        return sum(stage["state"] == "done" for stage in self.bucket["stages"])

    @property
    def share_done(self) -> float:
        """Return the share of finished stages, from 0 to 1."""
        return self.done / len(self.bucket["stages"])

    @property
    def now(self) -> str:
        """Return the stage that is running; empty if none is."""
        return next((str(one["name"]) for one in self.bucket["stages"] if one["state"] == "running"), "")


@dataclass(frozen=True)
class Progress:
    """The rows of a request, its log, and the programs made so far."""

    rows: list[Row]
    log: list[tuple[datetime, str]]
    is_finished: bool

    @property
    def sizes(self) -> dict[str, int] | None:
        """Return the sizes that all rows share; None if the sizes differ."""
        found = [row.bucket["dims"] for row in self.rows]
        return dict(found[0]) if found and all(one == found[0] for one in found) else None

    @property
    def is_started(self) -> bool:
        """Return whether a worker has started any of the jobs."""
        return any(row.job.started_at for row in self.rows)

    @property
    def programs(self) -> list[UUID]:
        """Return the programs that already exist, in the order of the rows."""
        return [row.bucket["program"] for row in self.rows if row.bucket["program"]]

    @property
    def failed(self) -> list[CompileJob]:
        """Return the jobs that ended without a program. Each job is listed once."""
        ended = {CompileState.FAILED, CompileState.CANCELLED}
        return list({row.job.pk: row.job for row in self.rows if row.job.state in ended}.values())


def request_progress(request: CompileRequest, *, now: datetime) -> Progress:
    """Return the state of every program of a request at `now`."""
    jobs = selectors.jobs_of_request(request)
    rows = [Row(job, bucket, _elapsed(job, bucket, now)) for job in jobs for bucket in job.stages]
    shown = selectors.dimension_names(request.model_version)
    log = sorted((entry for job in jobs for entry in _log(job, shown)), key=lambda entry: entry[0])
    return Progress(rows, log, all(job.is_finished for job in jobs))


def _elapsed(job: CompileJob, bucket: dict[str, Any], now: datetime) -> timedelta | None:
    """Return the time that a program's stages have taken so far; None if the job has not started.

    Until the first stage has ended, this is the time since the job started.
    """
    lasted = [Decimal(stage["seconds"]) for stage in bucket["stages"] if stage["seconds"] is not None]
    if lasted:
        return timedelta(seconds=float(sum(lasted)))
    return (job.finished_at or now) - job.started_at if job.started_at else None


def _log(job: CompileJob, shown: dict[str, str]) -> list[tuple[datetime, str]]:
    """Return the log of a job: when it was queued and started, when each stage ended, and how the job ended."""
    name = f"{job.target}, {job.precision}"
    found = [(job.created_at, f"{name}: queued")]
    if job.started_at is None:
        return found
    at = job.started_at
    found.append((at, f"{name}: started" + (f", attempt {job.attempts}" if job.attempts > 1 else "")))
    for bucket in job.stages:
        sizes = f", {sizes_text(bucket['dims'], shown)}" if len(job.stages) > 1 else ""
        for stage in bucket["stages"]:
            if stage["seconds"] is not None and stage["state"] in {"done", "failed"}:
                at += timedelta(seconds=float(Decimal(stage["seconds"])))
                found.append((at, f"{name}{sizes}: {stage['name']} {stage['state']} after {_seconds(stage)}"))
    if job.finished_at:
        found.append((max(job.finished_at, at), f"{name}: {str(job.get_state_display()).lower()}"))
    return found


def _seconds(stage: dict[str, Any]) -> str:
    """Return the duration of a stage as text. For a stage too short to be timed, this is "less than 1 ms"."""
    return duration_format(stage["seconds"]) if Decimal(stage["seconds"]) else "less than 1 ms"
