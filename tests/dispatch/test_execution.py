"""A worker's walk with a real program: compiled, simulated, counted, billed; and what happens when it does not add up."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

import compiler
from apps.compilation.models import Program
from apps.dispatch import services
from apps.dispatch.execution import Heartbeat, lease_execute
from apps.dispatch.models import Job, JobState, Lease
from apps.dispatch.services.leases import LeaseLost
from apps.ledger.models import UsageRow
from apps.planner.models import Plan
from apps.pricing.rating import exact_sum
from apps.registry.feeds import arrays_unpack
from tests.cast import Cast
from tests.dispatch.real import choosing_graph, graph_of, meant, real_program
from tests.dispatch.scene import Scene
from tests.sales.market import open_market


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    """The scene in the real present, with rows that a heartbeat's own connection sees."""
    return Scene(open_market(devices=2), cast, timezone.now())


def execute(job: Job) -> list[bool]:
    """Runs the job's due leases in this process as a worker does."""
    services.leases_offer_due(now=timezone.now() + timedelta(minutes=1))
    done = [
        lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=timezone.now)
        for lease in Lease.objects.filter(stage__job=job, state="offered")
    ]
    services.job_advance(job_id=job.pk, now=timezone.now())
    job.refresh_from_db()
    return done


def outputs_of(job: Job) -> dict[str, np.ndarray]:
    with default_storage.open(job.outputs_key) as file:
        return arrays_unpack(file.read())


@pytest.mark.parametrize("target", ["lpu", "lpu2"])
def test_a_job_runs_on_the_simulator_and_is_billed_by_counts_that_were_compiled(present: Scene, target: str) -> None:
    program = real_program(present, target=target)
    pool = present.market.lpu if target == "lpu" else present.market.lpu2
    job = present.job(present.contract((program, 500), pool=pool), 300, shape=(1, 8))
    assert execute(job) == [True, True]
    assert job.state == JobState.DONE, job.problem
    with default_storage.open(job.inputs_key) as file:
        x = arrays_unpack(file.read())["x"]
    assert np.abs(outputs_of(job)["y"] - meant(x)).max() < 1e-6
    assert sum(UsageRow.objects.values_list("operations", flat=True)) == 300 * program.operations
    for lease in Lease.objects.filter(stage__job=job):
        assert lease.counters == program.resources
        assert lease.wall_ns
        assert lease.wall_ns > 0


@pytest.mark.parametrize(("threshold", "is_dear"), [(-1.0, True), (2.0, False)])
def test_a_program_whose_course_the_data_decides_is_billed_by_its_bound_and_shows_what_was_executed(
    present: Scene, threshold: float, is_dear: bool
) -> None:
    program = real_program(present, graph=choosing_graph(8, threshold=threshold))
    assert not program.exact
    assert "choose" in program.reason
    job = present.job(present.contract((program, 40)), 40, shape=(1, 8))
    assert all(execute(job))
    assert job.state == JobState.DONE, job.problem
    with default_storage.open(job.inputs_key) as file:
        x = arrays_unpack(file.read())["x"]
    assert np.abs(outputs_of(job)["y"] - (meant(x) if is_dear else 2 * x)).max() < 1e-6
    for lease in Lease.objects.filter(stage__job=job):
        assert lease.counters is not None
        assert lease.counters["cycles"] <= program.latency_cycles
        assert (lease.counters["cycles"] == program.latency_cycles) is is_dear
        assert (lease.counters["operations"] == program.operations) is is_dear
    assert sum(UsageRow.objects.values_list("operations", flat=True)) == 40 * program.operations
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == job.contract.net


def test_a_compiler_that_promised_other_counts_fails_the_job_loudly(present: Scene) -> None:
    program = real_program(present)
    Program.objects.filter(pk=program.pk).update(
        resources={**program.resources, "cycles": program.resources["cycles"] - 1}
    )
    job = present.job(present.contract((program, 50)), 10, shape=(1, 8))
    assert execute(job) == [False]
    assert job.state == JobState.FAILED
    assert f"cycles: compiled {program.latency_cycles - 1}, counted {program.latency_cycles}" in job.problem
    assert not UsageRow.objects.exists()


def test_a_binary_that_is_not_the_one_that_was_sold_does_not_run(present: Scene) -> None:
    program = real_program(present)
    other = compiler.compile(graph_of(8, scale=3.0), target="lpu").to_bytes()
    key = default_storage.save("programs/other.bin", ContentFile(other))
    Program.objects.filter(pk=program.pk).update(binary_key=key)
    job = present.job(present.contract((program, 50)), 10, shape=(1, 8))
    assert execute(job) == [False]
    assert "but the contract is for" in job.problem
    assert not UsageRow.objects.exists()


def test_a_cascade_hands_on_what_the_first_program_is_unsure_about(present: Scene) -> None:
    first, second = real_program(present), real_program(present, scale=-5.0)
    plan = _plan(present, first, second, threshold="0.945")
    contract = present.contract((first, 100), (second, 100), plan_id=plan)
    job = present.job(contract, 60, shape=(1, 8))
    execute(job)
    execute(job)
    assert job.state == JobState.DONE, job.problem
    found, x = outputs_of(job), arrays_unpack(default_storage.open(job.inputs_key).read())["x"]
    unsure = meant(x).reshape(60, -1).max(axis=1) < 0.945
    stage = job.stages.get(position=1)
    assert 0 < stage.count < 60
    assert found["takt_stage"].sum() == stage.count == unsure.sum()
    wanted = np.where(unsure[:, None, None], meant(x, scale=-5.0), meant(x))
    assert np.abs(found["y"] - wanted).max() < 1e-6
    by_program = dict(UsageRow.objects.values_list("program_digest", "quantity"))
    assert by_program == {first.digest: 60, second.digest: stage.count}


def test_a_cascade_hands_on_no_more_than_the_contract_holds_and_says_so(present: Scene) -> None:
    first, second = real_program(present), real_program(present, scale=-5.0)
    plan = _plan(present, first, second, threshold="0.99")
    job = present.job(present.contract((first, 60), (second, 7), plan_id=plan), 60, shape=(1, 8))
    execute(job)
    execute(job)
    assert job.state == JobState.DONE, job.problem
    least_sure = np.argsort(_confidences(job), kind="stable")[:7]
    assert np.flatnonzero(outputs_of(job)["takt_stage"]).tolist() == sorted(least_sure)
    assert job.stages.get(position=0).unsure_left == 53
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == job.contract.net


def _confidences(job: Job) -> np.ndarray:
    with default_storage.open(job.inputs_key) as file:
        return meant(arrays_unpack(file.read())["x"]).reshape(job.items, -1).max(axis=1).round(6)


def _plan(scene: Scene, first: Program, second: Program, *, threshold: str) -> UUID:
    programs = [str(first.pk), str(second.pk)]
    lines = [{"program": one, "executions": 100, "expected": 100} for one in programs]
    chosen = {
        "kind": "cascade",
        "threshold": threshold,
        "output": "y",
        "programs": programs,
        "lines": lines,
        "pool": scene.market.lpu.slug,
    }
    plan = Plan.objects.create(
        organisation=scene.cast.organisation,
        title="Cascade",
        requirements={"items": 100},
        candidates=[],
        chosen=chosen,
        basis={},
        created_by=scene.cast.engineer,
        created_at=scene.now,
    )
    return plan.pk


def test_the_heartbeat_of_a_lost_lease_stops_the_runner(present: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.dispatch.execution.RENEW_SECONDS", 0.01)
    job = present.job(present.contract((real_program(present), 50)), 10, shape=(1, 8))
    lease = present.take(Lease.objects.get(stage__job=job))
    with Heartbeat(lease.pk, lease.epoch, timezone.now) as heart:
        heart.progress(3)
        assert heart.wait_renewed(5.0)
        assert heart.wait_renewed(5.0)  # the first may have begun before there was progress
        lease.refresh_from_db()
        assert lease.progress == 3
        services.job_cancel(job_id=job.pk, actor=None, now=timezone.now())
        assert heart.wait_lost(5.0)
        with pytest.raises(LeaseLost):
            heart.progress(4)


def test_a_lease_that_is_not_offered_is_not_run(present: Scene) -> None:
    job = present.job(present.contract((real_program(present), 50)), 10, shape=(1, 8))
    lease = Lease.objects.get(stage__job=job)
    assert not lease_execute(lease_id=lease.pk, epoch=lease.epoch + 1, host="here", clock=timezone.now)
    assert not UsageRow.objects.exists()
