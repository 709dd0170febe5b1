"""The progress of compiles that were requested together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.compilation import selectors
from apps.compilation.dimensions import sizes_text
from apps.compilation.models import CompileJob, CompileRequest, CompileState
from apps.figures import elapsed_format


@dataclass(frozen=True)
class Row:
    """One program of a request: its job, its sizes and its stages."""

    job: CompileJob
    bucket: dict[str, Any]
    elapsed: timedelta | None

    @property
    def done(self) -> int:
        return sum(stage["state"] == "done" for stage in self.bucket["stages"])

    @property
    def share_done(self) -> float:
        """Return the share of finished stages, from 0 to 1."""
        return self.done / len(self.bucket["stages"])

    @property
    def now(self) -> str:
        """Return the running stage; empty if no stage is running."""
        return next((str(one["name"]) for one in self.bucket["stages"] if one["state"] == "running"), "")


@dataclass(frozen=True)
class Progress:
    """The rows of a request, the log, and the finished programs."""

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
        """Return whether any job has started."""
        return any(row.job.started_at for row in self.rows)

    @property
    def programs(self) -> list[UUID]:
        """Return the finished programs in the order of the rows."""
        return [row.bucket["program"] for row in self.rows if row.bucket["program"]]

    @property
    def failed(self) -> list[CompileJob]:
        """Return the jobs that failed or were cancelled, without duplicates."""
        ended = {CompileState.FAILED, CompileState.CANCELLED}
        return list({row.job.pk: row.job for row in self.rows if row.job.state in ended}.values())


def request_progress(request: CompileRequest, *, now: datetime) -> Progress:
    """Return the progress of all programs of a request at `now`."""
    jobs = selectors.jobs_of_request(request)
    rows = [Row(job, bucket, _elapsed(job, bucket, now)) for job in jobs for bucket in job.stages]
    shown = selectors.dimension_names(request.model_version)
    log = sorted((entry for job in jobs for entry in _log(job, shown)), key=lambda entry: entry[0])
    return Progress(rows, log, all(job.is_finished for job in jobs))


def _elapsed(job: CompileJob, bucket: dict[str, Any], now: datetime) -> timedelta | None:
    lasted = [Decimal(stage["seconds"]) for stage in bucket["stages"] if stage["seconds"] is not None]
    if lasted:
        return timedelta(seconds=float(sum(lasted)))
    return (job.finished_at or now) - job.started_at if job.started_at else None


def _log(job: CompileJob, shown: dict[str, str]) -> list[tuple[datetime, str]]:
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
                found.append(
                    (at, f"{name}{sizes}: {stage['name']} {stage['state']} after {elapsed_format(stage['seconds'])}")
                )
    if job.finished_at:
        found.append((max(job.finished_at, at), f"{name}: {str(job.get_state_display()).lower()}"))
    return found
