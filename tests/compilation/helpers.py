"""Compiles that run in the test's own process, with the real compiler in its limited child."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from typing import cast as cast_to
from unittest.mock import patch

from apps.compilation import selectors, services
from apps.compilation.models import CompileJob, Program
from apps.compilation.services import running
from apps.registry.child import Child, Limits, child_start
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


def run(job: CompileJob, clock: Callable[[], datetime] | None = None) -> CompileJob:
    services.job_run(job_id=job.pk, clock=clock or Clock())
    job.refresh_from_db()
    return job


def run_remembered(job: CompileJob, clock: Callable[[], datetime] | None = None) -> CompileJob:
    """Runs the job with a real compile the first time in this run of the tests, and then, in whichever worker, with the same
    answer.

    That the compiler gives the same bytes every time is held by its own tests.
    """
    if "TEST_FOLDER" not in os.environ:  # a benchmark, outside a run of the tests
        return run(job, clock)
    with patch.object(running, "child_start", _remembered):
        return run(job, clock)


def compiled(cast: Cast, slug: str, *, target: str = "lpu", **options: Any) -> Program:
    """A program of a sample, as `run_remembered` compiles it."""
    job = run_remembered(ask(cast, sample_of(cast, slug), target=target, **options))
    assert job.state == CompileJob.State.DONE, job.error
    return selectors.programs_of_job(job)[0]


@contextmanager
def _remembered(
    module: str, *, request: dict[str, Any], files: dict[str, bytes | Path], limits: Limits
) -> Iterator[Child]:
    """A limited child, or what one left in its folder when it was asked the same."""
    data = {name: file.read_bytes() if isinstance(file, Path) else file for name, file in files.items()}
    key = repr((module, request, sorted((name, sha256(one).hexdigest()) for name, one in data.items())))
    kept = Path(os.environ["TEST_FOLDER"]) / f"compiled-{sha256(key.encode()).hexdigest()}"
    if not kept.exists():
        with child_start(module, request=request, files=files, limits=limits) as real:
            yield real
            if real.process.returncode == 0:
                own = kept.with_suffix(f".{os.getpid()}")  # complete, or not there: other workers look for it too
                own.write_bytes(pickle.dumps({path.name: path.read_bytes() for path in real.folder.iterdir()}))
                own.rename(kept)
        return
    with TemporaryDirectory() as name:
        for filename, data in pickle.loads(kept.read_bytes()).items():  # noqa: S301 - written above
            (Path(name) / filename).write_bytes(data)
        ended = SimpleNamespace(returncode=0, poll=lambda: 0)
        yield Child(Path(name), cast_to("subprocess.Popen[bytes]", ended), inf)
