"""Compiles that run in the test's own process, with the real compiler in its limited child."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apps.compilation import selectors, services
from apps.compilation.models import CompileJob, Program
from apps.registry.models import ModelVersion
from apps.registry.services import sample_add
from tests.cast import Cast

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Clock:
    """Advances a second whenever it is read."""

    def __init__(self, at: datetime = NOW) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def sample_of(cast: Cast, slug: str) -> ModelVersion:
    return sample_add(organisation=cast.organisation, actor=cast.engineer, slug=slug, now=NOW)


def ask(cast: Cast, version: ModelVersion, *, target: str = "lpu", **options: Any) -> CompileJob:
    return services.job_create(version=version, target=target, actor=cast.engineer, now=NOW, **options)


def run(job: CompileJob, clock: Clock | None = None) -> CompileJob:
    services.job_run(job_id=job.pk, clock=clock or Clock())
    job.refresh_from_db()
    return job


def compiled(cast: Cast, slug: str, *, target: str = "lpu", **options: Any) -> Program:
    """A program of a sample, really compiled."""
    job = run(ask(cast, sample_of(cast, slug), target=target, **options))
    assert job.state == CompileJob.State.DONE, job.error
    return selectors.programs_of_job(job)[0]
