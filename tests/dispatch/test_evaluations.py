"""Programs are evaluated on a customer's data as jobs like any other, and plans promise what was measured."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

import compiler
from apps.accounts.problems import Problem
from apps.compilation.models import CompileJob, Program
from apps.compilation.services import job_create as compile_job_create
from apps.dispatch import evaluations, measurement
from apps.dispatch.models import Job, JobState
from apps.dispatch.services import job_cancel
from apps.fleet.models import Pool
from apps.ledger.models import UsageRow
from apps.planner import candidates, task_services
from apps.planner.metrics import Metric
from apps.planner.models import EvaluationRun, Task
from apps.planner.scores import f1_bound
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.registry.labelled import split
from apps.registry.models import DataSet
from apps.registry.services import dataset_add, dataset_delete
from apps.sales.models import Contract
from apps.timetable.services import reservation_release, reservation_take
from tests.compilation.helpers import run_remembered
from tests.dispatch.real import ROOT, processors_align
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute
from tests.registry.helpers import version_of
from tests.sales.market import open_market

ITEMS = 60


@pytest.fixture
def present(transactional_db: None, cast: Any) -> Scene:
    scene = Scene(open_market(devices=2), cast, timezone.now())
    processors_align(scene)
    return scene


def digits(labels: bool = True) -> dict[str, np.ndarray]:
    found = np.load(ROOT / "samples" / "digits.npz")
    arrays = {"image": found["image"][:ITEMS]}
    return {**arrays, "labels": found["labels"][:ITEMS]} if labels else arrays


def data_set(scene: Scene, arrays: dict[str, np.ndarray]) -> DataSet:
    file = io.BytesIO()
    np.savez(file, **arrays)
    size = file.tell()
    file.seek(0)
    row, _ = dataset_add(
        organisation=scene.cast.organisation,
        file=file,
        size=size,
        name="digits",
        seed=1,
        choose_percent=33,
        actor=scene.cast.engineer,
        now=scene.now,
    )
    return row


def task_of(scene: Scene, data: DataSet, metric: Metric | None = None, **stated: Any) -> Task:
    return task_services.task_create(
        organisation=scene.cast.organisation,
        name="read digits",
        data_set=data,
        metric=metric or Metric("accuracy"),
        actor=scene.cast.engineer,
        now=scene.now,
        **stated,
    )


def compile_all(scene: Scene, task: Task) -> None:
    """What the page's first button does, and the compile worker then."""
    for job in task_services.programs_compile(task=task, actor=scene.cast.engineer, now=scene.now):
        run_remembered(job, clock=lambda: scene.now)
    for row in candidates.rows_of(task):
        if row.deployment.pool.is_host and row.program is not None:
            measurement.host_measure(program_id=row.program.pk, pool_slug=row.deployment.pool.slug, now=scene.now)


def evaluate(scene: Scene, task: Task) -> list[EvaluationRun]:
    """What the second button does, and dispatch and its workers then."""
    runs = task_services.evaluations_request(task=task, actor=scene.cast.engineer, now=scene.now)
    assert evaluations.evaluations_start(now=scene.now) == len(runs)
    for run in runs:
        run.refresh_from_db()
        assert run.job_id is not None
        assert all(execute(Job.objects.get(pk=run.job_id)))
    turns = [
        evaluations.evaluations_judge(now=scene.now) for _ in range(2)
    ]  # what is compared with float32 may wait for it
    assert sum(turns) == len(runs)
    for run in runs:
        run.refresh_from_db()
    return runs


def right(program: Program, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Which items the program answers right, from its binary and the simulator alone."""
    from django.core.files.storage import default_storage

    with default_storage.open(program.binary_key) as file:
        data = file.read()
    feeds = [{"image": image[None].astype("float32")} for image in arrays["image"]]
    answers = [compiler.simulate(data, feed)[0]["probabilities"] for feed in feeds]
    return np.array([answer.argmax() for answer in answers]) == arrays["labels"]


def test_a_task_is_compiled_evaluated_and_planned_by_what_its_programs_answered(present: Scene) -> None:
    arrays = digits()
    version_of(present.cast, (ROOT / "samples" / "digits-small.onnx").read_bytes(), "digits-small")
    task = task_of(present, data_set(present, arrays))
    compile_all(present, task)
    programs = [row.program for row in candidates.rows_of(task) if row.program and not row.deployment.pool.is_host]
    assert {program.precision for program in programs} == {"float32", "int8"}
    asked = task_services.evaluations_priced(task, rows=candidates.rows_of(task), now=present.now)

    runs = evaluate(present, task)

    assert {run.state for run in runs} == {"done"}
    assert {run.program for run in runs} == set(programs)
    parts = split(ITEMS, seed=1, choose=task.data_set.choose)
    for run in runs:
        assert run.evaluation is not None
        expected = right(run.program, arrays)
        assert (run.evaluation.correct, run.evaluation.total) == (expected[parts.promise].sum(), len(parts.promise))
        part = run.evaluation.items["choose"]
        assert (
            sum(a == b for a, b in zip(part["labels"], part["predicted"], strict=True)) == expected[parts.choose].sum()
        )
    contracts = Contract.objects.filter(pk__in=[run.contract_id for run in runs])
    assert len(contracts) == len({run.pool_id for run in runs})  # one for each pool
    assert sum(contract.net for contract in contracts) == asked.total
    assert UsageRow.objects.count() >= len(runs)

    with pytest.raises(
        Problem, match="has been evaluated or is being evaluated"
    ):  # the same program on the same data runs once
        task_services.evaluations_request(task=task, actor=present.cast.engineer, now=present.now)
    other = task_of(present, task.data_set)
    assert not task_services.evaluations_priced(other, rows=candidates.rows_of(other), now=present.now).rows

    least = min(run.evaluation.lower_bound for run in runs if run.evaluation)
    plan = plan_create(
        subject=task,
        requirements=Requirements(1000, accuracy=Fraction(least) - Fraction(1, 5)),
        actor=present.cast.engineer,
        now=present.now,
    )
    assert plan.chosen is not None
    shown = {(row["title"], row["pool"]): row["accuracy"] for row in plan.candidates if row["kind"] == "single"}
    assert shown["digits-small in int8", "lpu-a"] is not None
    assert plan.basis["data_set"]["digest"] == task.data_set.digest


def test_int8_is_compared_with_float32_without_labels(present: Scene) -> None:
    version = version_of(present.cast, (ROOT / "samples" / "digits-small.onnx").read_bytes(), "digits-small")
    data = data_set(present, digits(labels=False))
    with pytest.raises(Problem, match="has no labels"):
        task_of(present, data)
    task = task_of(present, data, Metric("agreement"), versions=[version.pk])
    compile_all(present, task)
    runs = evaluate(present, task)
    by_precision = {run.program.precision: run.evaluation for run in runs}
    assert by_precision["float32"].correct == by_precision["float32"].total
    assert 0.9 * by_precision["int8"].total <= by_precision["int8"].correct <= by_precision["int8"].total
    close = task_of(present, data, Metric("close", limit=Decimal("0.2")), versions=[version.pk])
    for run in evaluate(present, close):
        assert run.evaluation is not None
        assert 0.9 * ITEMS * 0.67 <= run.evaluation.correct <= run.evaluation.total
        if run.program.precision == "float32":
            assert run.evaluation.correct == run.evaluation.total
    for metric in (Metric("close"), Metric("snr", limit=Decimal(0))):
        with pytest.raises(Problem, match="needs a limit above 0"):
            task_of(present, data, metric)


def test_macro_f1_is_promised_by_its_own_bound(present: Scene, waiting: Task) -> None:
    task_services.evaluations_cancel(task=waiting, now=present.now)
    task = task_of(present, waiting.data_set, Metric("f1"))
    task_services.evaluations_request(task=task, actor=present.cast.engineer, now=present.now)
    evaluations.evaluations_start(now=present.now)
    present.run(
        Job.objects.get(pk=str(task.runs.get().job_id)), outputs=np.eye(2, dtype="float32")[np.arange(8) % 2][:, None]
    )
    assert evaluations.evaluations_judge(now=present.now) == 1
    found = task.runs.get().evaluation
    assert found is not None
    judged = found.items["evaluate"]
    assert found.correct == found.total
    assert Fraction(found.lower_bound) == f1_bound(judged["labels"], judged["predicted"], [0, 1], Fraction(1, 20))
    plan = plan_create(subject=task, requirements=Requirements(10), actor=present.cast.engineer, now=present.now)
    assert 0 < Fraction(plan.chosen["accuracy"]) <= Fraction(found.lower_bound)


@pytest.fixture
def waiting(present: Scene) -> Task:
    """A task with one program on one pool, which asks for its evaluation."""
    present.market.host.is_active = False
    present.market.host.save(update_fields=["is_active"])
    program = present.program(shape=(1, 4), outputs=(1, 2), interval=1_000, latency=1_000)
    version = program.model_version
    version.inputs, version.outputs = program.inputs, program.outputs
    version.save(update_fields=["inputs", "outputs"])
    task = task_of(present, data_set(present, {"x": np.ones((8, 1, 4), "float32"), "labels": np.arange(8) % 2}))
    task_services.evaluations_request(task=task, actor=present.cast.engineer, now=present.now)
    return task


def test_a_full_pool_makes_evaluations_wait_and_they_run_when_it_is_free(present: Scene, waiting: Task) -> None:
    run = waiting.runs.get()
    week = Fraction(8 * 24 * 3600)
    taken = [
        reservation_take(
            contract_id=uuid4(),
            organisation_id=present.cast.organisation.pk,
            pool=present.market.lpu,
            duration=week,
            not_before=present.now,
            not_after=present.now + timedelta(days=8),
            klass="standard",
            now=present.now,
        )
        for _ in range(2)
    ]
    assert evaluations.evaluations_start(now=present.now) == 0
    run.refresh_from_db()
    assert (run.state, "no free window" in run.note) == ("queued", True)
    assert not Contract.objects.exists()
    reservation_release(reservation_id=taken[0].pk, now=present.now)
    assert evaluations.evaluations_start(now=present.now) == 1
    run.refresh_from_db()
    assert (run.state, run.note) == ("running", "")


def test_a_job_that_is_cancelled_or_answers_nonsense_ends_its_evaluation(present: Scene, waiting: Task) -> None:
    evaluations.evaluations_start(now=present.now)
    run = waiting.runs.get()
    assert run.job_id is not None
    assert evaluations.evaluations_judge(now=present.now) == 0  # its job has not ended
    job_cancel(job_id=run.job_id, actor=None, now=present.now)
    assert evaluations.evaluations_judge(now=present.now) == 1
    run.refresh_from_db()
    assert (run.state, run.problem) == ("cancelled", "The job of this evaluation was cancelled.")

    task_services.evaluations_request(task=waiting, actor=present.cast.engineer, now=present.now)
    evaluations.evaluations_start(now=present.now)
    again = waiting.runs.order_by("created_at", "state").exclude(pk=run.pk).get()
    job = Job.objects.get(pk=again.job_id)
    present.run(job, outputs=np.zeros((8, 3, 2), "float32"))  # not what its program says
    assert Job.objects.get(pk=job.pk).state == JobState.DONE
    assert evaluations.evaluations_judge(now=present.now) == 1
    again.refresh_from_db()
    assert (again.state, "one score per class" in again.problem) == ("failed", True)


def test_without_its_data_an_evaluation_fails_and_takes_nothing(present: Scene, waiting: Task) -> None:
    dataset_delete(data_set=waiting.data_set, actor=present.cast.engineer, now=present.now)
    assert evaluations.evaluations_start(now=present.now) == 0
    run = waiting.runs.get()
    said = "The file of digits was deleted. Upload the data set again and create a new task."
    assert (run.state, run.problem) == ("failed", said)
    assert not Contract.objects.exists()


def test_what_was_not_taken_up_can_be_cancelled(present: Scene, waiting: Task) -> None:
    assert task_services.evaluations_cancel(task=waiting, now=present.now) == 1
    assert evaluations.evaluations_start(now=present.now) == 0
    assert waiting.runs.get().state == "cancelled"


def test_the_page_of_a_plan_says_on_what_it_was_measured(present: Scene, waiting: Task, client: Client) -> None:
    plan = plan_create(subject=waiting, requirements=Requirements(10), actor=present.cast.engineer, now=present.now)
    client.force_login(present.cast.engineer)
    page = client.get(f"/plans/{plan.pk}").content.decode()
    assert f"accuracy on {waiting.data_set.name}" in page
    assert f"/tasks/{waiting.pk}/plan" in page
    task_services.task_delete(task=waiting, actor=present.cast.engineer, now=present.now)
    page = client.get(f"/plans/{plan.pk}").content.decode()
    assert f"/tasks/{waiting.pk}" not in page


def test_a_program_is_asked_for_once_whatever_pools_and_tasks_want_it(present: Scene, waiting: Task) -> None:
    other = task_of(present, waiting.data_set)
    assert not task_services.evaluations_priced(
        other, rows=candidates.rows_of(other), now=present.now
    ).rows  # it runs already
    task_services.evaluations_cancel(task=waiting, now=present.now)
    lpu = present.market.lpu
    twin = Pool.objects.create(
        slug="twin",
        name="Twin",
        kind=lpu.kind,
        processor=lpu.processor,
        processor_class=lpu.processor_class,
        site=lpu.site,
        created_at=present.now,
    )
    rows = candidates.rows_of(other)
    assert {row.deployment.pool for row in rows if row.can_be_evaluated} == {lpu, twin}
    assert len(task_services.evaluations_request(task=other, actor=present.cast.engineer, now=present.now)) == 1


def test_what_could_not_be_judged_is_not_run(present: Scene, waiting: Task) -> None:
    task_services.evaluations_cancel(task=waiting, now=present.now)
    for stated, said in (({"output": "prob"}, "no output 'prob'"), ({}, "2 classes: 0 to 1")):
        arrays = {"x": np.ones((8, 1, 4), "float32"), "labels": np.arange(8) % (2 if stated else 3)}
        task = task_of(present, data_set(present, arrays), **stated)
        (row,) = [row for row in candidates.rows_of(task) if row.program]
        assert said in row.problem
        with pytest.raises(Problem, match=re.escape(said)):
            task_services.evaluations_request(task=task, actor=present.cast.engineer, now=present.now)


def test_it_never_costs_more_than_was_shown(present: Scene, waiting: Task) -> None:
    waiting.runs.update(most="0.0000001")
    assert evaluations.evaluations_start(now=present.now) == 0
    run = waiting.runs.get()
    assert (run.state, "now costs more" in run.problem) == ("failed", True)
    assert not Contract.objects.exists()


def test_data_that_are_deleted_meanwhile_end_the_evaluation(present: Scene, waiting: Task) -> None:
    evaluations.evaluations_start(now=present.now)
    present.run(Job.objects.get(pk=str(waiting.runs.get().job_id)), outputs=np.zeros((8, 1, 2), "float32"))
    dataset_delete(data_set=waiting.data_set, actor=present.cast.engineer, now=present.now)
    assert evaluations.evaluations_judge(now=present.now) == 1
    assert waiting.runs.get().state == "failed"
    with pytest.raises(Problem, match="was deleted"):
        task_services.programs_compile(task=waiting, actor=present.cast.engineer, now=present.now)


def test_a_program_whose_jobs_take_fewer_items_fails_alone(
    present: Scene, waiting: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting.runs.get()
    heavy = present.program(shape=(1, 4), outputs=(1, 2), interval=1_000, latency=1_000)
    EvaluationRun.objects.create(
        organisation=run.organisation,
        task=waiting,
        program=heavy,
        pool=run.pool,
        klass=run.klass,
        batch=run.batch,
        most=run.most,
        created_by=run.created_by,
        created_at=present.now,
    )
    monkeypatch.setattr(evaluations, "items_most", lambda program: 7 if program == heavy else 8)
    assert evaluations.evaluations_start(now=present.now) == 1
    said = {row.program_id: (row.state, row.problem) for row in waiting.runs.all()}
    assert said[run.program_id] == ("running", "")
    assert said[heavy.pk][0] == "failed"
    assert "at most 7 items. The data set has 8" in said[heavy.pk][1]


def test_inputs_are_stored_before_anything_is_locked(
    present: Scene, waiting: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("file_save", "quote_accept"):
        real = getattr(evaluations, name)
        monkeypatch.setattr(
            evaluations, name, lambda *a, real=real, name=name, **k: order.append(name) or real(*a, **k)
        )
    evaluations.evaluations_start(now=present.now)
    assert order == ["file_save", "quote_accept"]
    job = Job.objects.get(pk=str(waiting.runs.get().job_id))
    assert job.inputs_key.startswith(f"jobs/{job.pk}/")  # a sweep finds its owner


def test_whoever_left_buys_nothing(present: Scene, waiting: Task) -> None:
    present.cast.engineer.memberships.all().delete()
    assert evaluations.evaluations_start(now=present.now) == 0
    run = waiting.runs.get()
    assert (run.state, "may no longer buy for" in run.problem) == ("failed", True)
    assert not Contract.objects.exists()


def test_compiles_beyond_the_queue_are_left_for_later(present: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.compilation.services.jobs.UNFINISHED_MAX", 2)
    version_of(present.cast, (ROOT / "samples" / "digits-small.onnx").read_bytes(), "digits-small")
    batch = version_of(present.cast, (ROOT / "samples" / "digits-batch.onnx").read_bytes(), "digits-batch")
    task = task_of(present, data_set(present, digits()))
    actor, now = present.cast.engineer, present.now
    wanted = len(candidates.missing_of(task))
    assert wanted > 2
    jobs = task_services.programs_compile(task=task, actor=actor, now=now)
    assert (len(jobs), len(candidates.missing_of(task))) == (2, wanted - 2)
    with pytest.raises(Problem, match="2 compiles are waiting"):
        task_services.programs_compile(task=task, actor=actor, now=now)
    CompileJob.objects.update(state="cancelled", finished_at=now)
    compile_job_create(version=batch, target="lpu", actor=actor, now=now, dims={"batch": 8})
    assert len(candidates.missing_of(task)) == wanted, "a compile for another batch is none of these"
