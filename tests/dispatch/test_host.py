"""A host pool runs the model itself: the same answers, priced from the compiled counts, its latency measured and dated."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.dispatch import measurement, services
from apps.dispatch.models import Job, JobState, Lease
from apps.dispatch.runners import host, kept
from apps.fleet.models import HostMeasurement
from apps.fleet.selectors import host_measurement_latest
from apps.ledger.models import UsageRow
from apps.registry.feeds import arrays_unpack
from apps.registry.models import ModelVersion
from apps.timetable.models import Window
from tests.cast import Cast
from tests.dispatch.real import digits_programs
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute, outputs_of
from tests.sales.market import open_market


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast, timezone.now())


def images(items: int) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(3).random((items, 1, 1, 8, 8)).astype("float32")}


def submit(scene: Scene, program: Program, items: int, *, pool: str) -> Job:
    contract = scene.contract((program, items), pool=getattr(scene.market, pool))
    return services.job_create(contract=contract, arrays=images(items), actor=None, now=scene.now)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_generated_inputs_of_floats_are_no_mere_zeros_and_ones(dtype: str) -> None:
    made = host._seeded(Program(inputs=[{"name": "x", "dtype": dtype, "shape": [50]}]))["x"]
    assert made.dtype == np.dtype(dtype)
    assert ((made > 0) & (made < 1)).sum() > 40


def test_a_model_answers_the_same_on_the_host_and_on_both_processors_and_costs_what_was_compiled(
    present: Scene,
) -> None:
    first, second = digits_programs(present, "digits-small", "lpu", "lpu2")
    measurement.host_measure(program_id=first.pk, pool_slug="host-cpu", now=present.now)
    jobs = [
        submit(present, program, 40, pool=pool) for program, pool in ((first, "lpu"), (second, "lpu2"), (first, "host"))
    ]
    for job in jobs:
        execute(job)
        assert job.state == JobState.DONE, job.problem
    simulated, again, measured = (outputs_of(job)["probabilities"] for job in jobs)
    assert np.array_equal(simulated, again)
    assert np.abs(simulated - measured).max() <= 1e-3 * np.abs(measured).max()
    for job in jobs:
        row = UsageRow.objects.get(contract_id=job.contract_id)
        assert row.operations == 40 * first.operations
        assert row.amount == job.contract.net
    lease = Lease.objects.get(stage__job=jobs[2])
    assert len(lease.counters["durations_ns"]) == 40
    assert timedelta() < lease.device_to - lease.device_from < timedelta(minutes=1)
    assert UsageRow.objects.get(lease_id=lease.pk).occurred_from == lease.device_from


def test_a_window_on_a_host_pool_is_as_long_as_was_measured(present: Scene) -> None:
    (program,) = digits_programs(present, "digits-small", "lpu")
    with pytest.raises(Problem, match="not been measured"):
        present.contract((program, 40), pool=present.market.host)
    made = measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now)
    assert (made.measured_at, made.program_digest) == (present.now, program.digest)
    assert made.p50_ns <= made.p95_ns <= made.p99_ns
    assert "ONNX Runtime" in made.hardware
    present.contract((program, 40), pool=present.market.host)
    window = Window.objects.get()
    micros = (window.end - window.start) // timedelta(microseconds=1)
    assert micros == -(-40 * made.p95_ns // 1000)


def test_what_was_never_measured_is_asked_for_once_and_again_after_a_day(present: Scene) -> None:
    (program,) = digits_programs(present, "digits-small", "lpu")
    assert measurement.measurements_request_due(now=present.now) == 1
    assert measurement.measurements_request_due(now=present.now) == 0
    measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now)
    from django.core.cache import cache

    cache.clear()
    assert measurement.measurements_request_due(now=present.now + timedelta(hours=23)) == 0
    assert measurement.measurements_request_due(now=present.now + timedelta(hours=25)) == 1
    newest = host_measurement_latest(pool=present.market.host, program_digest=program.digest)
    assert newest == HostMeasurement.objects.get()


def test_outputs_of_a_job_are_those_of_its_items_in_their_order(present: Scene) -> None:
    (program,) = digits_programs(present, "digits-large", "lpu")
    job = submit(present, program, 160, pool="lpu")
    assert Lease.objects.filter(stage__job=job).count() > 1
    execute(job)
    with default_storage.open(job.inputs_key) as file:
        x = arrays_unpack(file.read())["image"]
    import compiler
    from apps.compilation.selectors import program_bytes

    for item in (0, 79, 80, 159):
        alone, _ = compiler.simulate(program_bytes(program), {"image": x[item]})
        assert np.array_equal(outputs_of(job)["probabilities"][item], alone["probabilities"])


def test_a_measurement_that_is_asked_for_twice_is_made_once(present: Scene) -> None:
    (program,) = digits_programs(present, "digits-small", "lpu")
    made = measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now)
    again = measurement.host_measure(
        program_id=program.pk, pool_slug="host-cpu", now=present.now + timedelta(minutes=5)
    )
    assert again == made
    later = measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now + timedelta(hours=25))
    assert later != made


def delete_anyway(program: Program) -> None:
    """As `version_delete` does once no contract needs the file."""
    ModelVersion.objects.filter(pk=program.model_version_id).update(
        state=ModelVersion.State.DELETED, deleted_at=timezone.now()
    )


def test_a_deleted_model_does_not_run_although_its_session_is_kept(present: Scene) -> None:
    (program,) = digits_programs(present, "digits-small", "lpu")
    measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now)
    assert program.model_version_id in kept._kept
    job = submit(present, program, 4, pool="host")
    delete_anyway(program)
    assert execute(job) == [False]
    assert job.state == JobState.FAILED
    assert (
        job.problem
        == f"The file of {program.model_version} was deleted, so the job cannot run. Upload the model again."
    )
    assert not Lease.objects.get(stage__job=job).is_missed  # nobody else's fault: nothing is credited
    assert program.model_version_id not in kept._kept
    with pytest.raises(FileNotFoundError, match="was deleted"):
        measurement.host_measure(program_id=program.pk, pool_slug="host-cpu", now=present.now + timedelta(hours=25))
    assert measurement.measurements_request_due(now=present.now + timedelta(hours=25)) == 0


def test_kept_sessions_give_way_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def room_for(size: int, *held: int) -> list[int]:
        monkeypatch.setattr(kept, "_kept", {n: (None, bytes_) for n, bytes_ in enumerate(held)})
        kept._room_make(size)
        return list(kept._kept)

    assert room_for(10, 10, 10, 10) == [0, 1, 2]
    assert room_for(10, 10, 10, 10, 10) == [1, 2, 3]
    assert room_for(kept.BYTES_MAX - 20, 10, 10, 10) == [1, 2]
    assert room_for(kept.BYTES_MAX * 2, 10, 10) == []
