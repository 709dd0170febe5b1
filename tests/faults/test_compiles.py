"""`kill -9` of a worker amid a compile: the job finishes once after another worker starts, and nothing is lost or doubled."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from apps.compilation import selectors, services
from apps.compilation.models import CompileJob, Program
from apps.compilation.services.running import SILENT_AFTER
from apps.compilation.tasks import compile_run
from apps.registry.services import sample_add
from tests.cast import Cast
from tests.faults.hosts import wait_until
from tests.workers import Crew


def children() -> dict[int, int]:
    """Processes that compile in a limited child right now, each with its parent; other tests may have theirs."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        is_child = b"apps.compilation.child" in words and any(
            w.startswith(tempfile.gettempdir().encode()) for w in words
        )
        if is_child and state != "Z":
            found[int(process.name)] = int(parent)
    return found


def children_of(worker: int) -> set[int]:
    """Those whose parent is a process of this worker, which leads a session of its own."""
    found = set()
    for child, parent in children().items():
        with suppress(ProcessLookupError):
            if os.getsid(parent) == worker:
                found.add(child)
    return found


@pytest.mark.django_db(transaction=True)
def test_a_compile_whose_worker_is_killed_finishes_once(cast: Cast, celery_worker: Crew) -> None:
    now = timezone.now()
    version = sample_add(organisation=cast.organisation, actor=cast.engineer, slug="digits-batch", now=now)
    first = celery_worker.start("compile")
    buckets = list(range(1, 9))
    job = services.job_create(version=version, target="lpu", dims={"batch": buckets}, actor=cast.engineer, now=now)
    running: set[int] = set()

    def is_amid() -> bool:
        alive = children_of(first.pid)
        running.update(alive)
        return Program.objects.count() >= 2 and bool(alive)

    wait_until(is_amid, seconds=90, otherwise="no compile began")
    running |= children_of(first.pid)
    celery_worker.kill(first)
    job.refresh_from_db()
    assert job.state == CompileJob.State.RUNNING
    finished = set(Program.objects.values_list("pk", flat=True))
    assert 2 <= len(finished) < len(buckets), "killed in the middle"
    wait_until(lambda: not running & set(children()), seconds=10, otherwise="the limited child outlived its worker")

    celery_worker.start("compile")
    soon = timezone.now() + SILENT_AFTER + timedelta(seconds=1)
    for _ in range(2):  # a second delivery of the same work does no harm
        services.jobs_sweep(now=soon, send=lambda pk: compile_run.delay(job_id=str(pk)))
        compile_run.delay(job_id=str(job.pk))

    def is_finished() -> bool:
        job.refresh_from_db()
        return job.is_finished

    wait_until(is_finished, seconds=120, otherwise="the compile did not finish after the restart")
    assert (job.state, job.error) == (CompileJob.State.DONE, None)
    programs = selectors.programs_of_job(job)
    assert [program.dims["batch"] for program in programs] == buckets
    assert finished < {program.pk for program in programs}, "what was compiled before was kept"
    assert Program.objects.count() == len(buckets), "no program twice"
    stored = list(Path(settings.MEDIA_ROOT).rglob("program.bin"))
    assert len(stored) == len(buckets)
    assert all(row["state"] == "done" for bucket in job.stages for row in bucket["stages"])
