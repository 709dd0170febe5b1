"""One contract for several lengths of one model: the inputs' shape chooses the program, on the processor and on the host."""

from __future__ import annotations

import numpy as np
import pytest
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.compilation.services import job_create as compile_job_create
from apps.dispatch import measurement, services
from apps.dispatch.models import Job, JobState
from apps.ledger.models import UsageRow
from apps.sales.models import Contract
from tests.cast import Cast
from tests.compilation.helpers import run_remembered
from tests.dispatch.real import ROOT, processors_align
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute, outputs_of
from tests.registry.helpers import version_of
from tests.sales.market import open_market


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    scene = Scene(open_market(devices=2), cast, timezone.now())
    processors_align(scene)
    return scene


@pytest.fixture
def buckets(present: Scene) -> list[Program]:
    """The sample with an open batch, compiled for three sizes of it."""
    version = version_of(present.cast, (ROOT / "samples" / "digits-batch.onnx").read_bytes(), "digits-batch")
    (name,) = [row["name"] for row in version.symbolic_dims]
    job = compile_job_create(
        version=version, target="lpu", actor=present.cast.engineer, now=present.now, dims={name: [1, 2, 4]}
    )
    run_remembered(job, clock=lambda: present.now)
    assert job.state == job.State.DONE, job.error
    return sorted(job.programs.all(), key=lambda program: program.inputs[0]["shape"][0])


def submit(scene: Scene, contract: Contract, batch: int, items: int) -> Job:
    images = np.random.default_rng(batch).random((items, batch, 1, 8, 8)).astype("float32")
    return services.job_create(contract=contract, arrays={"image": images}, actor=None, now=scene.now)


def test_each_length_runs_on_its_own_program_and_the_host_agrees(present: Scene, buckets: list[Program]) -> None:
    for program in buckets:
        measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now)
    lines = [(program, 10) for program in buckets]
    proven, measured = present.contract(*lines), present.contract(*lines, pool=present.market.host)
    for program, batch in zip(buckets, (1, 2, 4), strict=True):
        pair = [submit(present, contract, batch, 3) for contract in (proven, measured)]
        for job in pair:
            assert job.stages.get().program == program
            execute(job)
            assert job.state == JobState.DONE, job.problem
        ours, theirs = (next(iter(outputs_of(job).values())) for job in pair)
        assert ours.shape[:2] == (3, batch)
        assert np.abs(ours - theirs).max() <= 1e-3 * np.abs(theirs).max()
    assert UsageRow.objects.count() == 6


def test_a_length_that_was_not_compiled_is_refused_with_those_that_were(present: Scene, buckets: list[Program]) -> None:
    contract = present.contract(*((program, 10) for program in buckets))
    with pytest.raises(Problem, match=r"1 × 1 × 8 × 8.*2 × 1 × 8 × 8.*4 × 1 × 8 × 8"):
        submit(present, contract, 3, 2)
