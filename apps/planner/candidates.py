"""The candidates for a task: models on pools, with programs and evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.compilation.models import CompileJob, CompileState, Precision, Program
from apps.compilation.selectors import programs_of_versions
from apps.fleet.selectors import pools
from apps.planner.metrics import NUMERIC, Metric, MetricError, classes_check, scores_of
from apps.planner.models import EvaluationRun, Task
from apps.planner.score_format import score_format_of
from apps.planner.variants import CandidateModels, Deployment, deployment_of, precisions_of
from apps.registry.labelled import split_digest
from apps.registry.models import DataSet, Evaluation, ModelVersion
from apps.registry.selectors import versions_present

Values = Sequence[dict[str, Any]]  # [{"name", "dtype", "shape"}]


@dataclass(frozen=True)
class CandidateRow:
    """A candidate: a model in one precision on one pool. `run` is the newest evaluation request.

    `problem` says why the metric cannot evaluate the program's outputs. It is empty if evaluation is possible.
    """

    deployment: Deployment
    precision: str
    evaluation: Evaluation | None
    run: EvaluationRun | None
    problem: str = ""

    @property
    def program(self) -> Program | None:
        return self.deployment.program

    @property
    def bound_text(self) -> str:
        one = self.evaluation
        return "" if one is None else score_format_of(one.metric).text(Fraction(one.lower_bound))

    @property
    def is_open(self) -> bool:
        return self.run is not None and self.run.finished_at is None

    @property
    def can_be_evaluated(self) -> bool:
        return self.program is not None and self.evaluation is None and not self.is_open and not self.problem


def tasks_of(organisation: Organisation) -> QuerySet[Task]:
    """Return the organisation's tasks, newest first."""
    rows = Task.objects.filter(organisation=organisation, deleted_at=None)
    return rows.select_related("data_set").order_by("-created_at", "-id")


def sizes_fitting(wanted: Values, given: Values) -> dict[str, int] | None:
    """Return sizes of variable dimensions with which the inputs `wanted` accept the items `given`; None if no sizes fit."""
    shapes = {value["name"]: list(value["shape"]) for value in given}
    if len(wanted) == 1 and len(shapes) == 1:
        shapes = {wanted[0]["name"]: next(iter(shapes.values()))}
    if {value["name"] for value in wanted} != set(shapes):
        return None
    sizes: dict[str, int] = {}
    fits = all(_shape_fits(list(value["shape"]), shapes[value["name"]], sizes) for value in wanted)
    return sizes if fits else None


def _shape_fits(own: list[Any], item: list[int], sizes: dict[str, int]) -> bool:
    if len(item) == len(own) - 1 and (own[0] == 1 or isinstance(own[0], str)):
        item = [1, *item]
    if len(item) != len(own):
        return False
    return all(
        (sizes.setdefault(size, length) if isinstance(size, str) else size) == length
        for size, length in zip(own, item, strict=True)
    )


def versions_of(task: Task) -> list[ModelVersion]:
    """Return the model versions that the task names.

    If the task names none, return the newest version of every model that accepts the data set's items.
    """
    present = versions_present().filter(organisation_id=task.organisation_id)
    if task.versions:
        return list(present.filter(pk__in=task.versions).order_by("model__name", "number"))
    newest: dict[UUID, ModelVersion] = {}
    for version in present.order_by("model__name", "number"):
        newest[version.model_id] = version
    return [one for one in newest.values() if sizes_fitting(one.inputs, task.data_set.inputs) is not None]


def metric_of(task: Task) -> Metric:
    """Return the task's metric."""
    return Metric(task.metric, task.k, task.limit)


def metric_title(task: Task) -> str:
    """Return the metric's title as evaluations store it, including the task's output, if any."""
    return metric_of(task).title + (f" of {task.output}" if task.output else "")


def output_of(task: Task, program: Program) -> str:
    """Return the name of the output to evaluate.

    If the task names none, return the first output with one score per class. If there is no such output, return the
    first.
    """
    if task.output:
        return task.output
    scored = [one["name"] for one in program.outputs if len([size for size in one["shape"] if size != 1]) == 1]
    first: str = [*scored, *(one["name"] for one in program.outputs)][0]
    return first


def evaluations_of(task: Task, *, with_items: bool = True) -> dict[tuple[str, bool], Evaluation]:
    """Return evaluations with the task's data and metric, by (program digest, whether the pool is a host).

    With `with_items` set to False, the answers (`items`) are not loaded.
    """
    data = task.data_set
    rows = (
        Evaluation.objects.defer(*([] if with_items else ["items"]))
        .filter(
            family__organisation_id=task.organisation_id,
            family__dataset_digest=split_digest(data.digest, data.seed, data.choose),
            family__metric=metric_title(task),
        )
        .exclude(program_digest="")
    )
    return {(row.program_digest, row.is_host): row for row in rows}


def fits(program: Program, data_set: DataSet) -> bool:
    """Return whether the program accepts the items of the data set."""
    return sizes_fitting(program.inputs, data_set.inputs) is not None


def candidate_models_of_task(task: Task) -> CandidateModels:
    """Return the task's models for a plan. Only programs that the platform has evaluated have an accuracy."""
    known = evaluations_of(task)

    def evaluation(deployment: Deployment, _precision: str) -> Evaluation | None:
        program = deployment.program
        return known.get((program.digest, deployment.pool.is_host)) if program else None

    return CandidateModels(versions_of(task), lambda program: fits(program, task.data_set), evaluation)


def rows_of(task: Task) -> list[CandidateRow]:
    """Return every candidate: each version in each of its precisions on each active pool."""
    versions = versions_of(task)
    programs = _fitting_programs(task, versions)
    known = evaluations_of(task, with_items=False)
    runs: dict[tuple[UUID, UUID], EvaluationRun] = {}
    for run in EvaluationRun.objects.filter(task=task).order_by("created_at", "id"):
        runs[(run.program_id, run.pool_id)] = run
    offered = list(pools())
    return [
        _row(task, deployment_of(version, pool, programs, precision), precision, known, runs)
        for version in versions
        for pool in offered
        for precision in precisions_of(version, pool, programs)
    ]


def _fitting_programs(task: Task, versions: Sequence[ModelVersion]) -> list[Program]:
    return [p for p in programs_of_versions([one.pk for one in versions]) if fits(p, task.data_set)]


def _row(
    task: Task,
    deployment: Deployment,
    precision: str,
    known: dict[tuple[str, bool], Evaluation],
    runs: dict[tuple[UUID, UUID], EvaluationRun],
) -> CandidateRow:
    program = deployment.program
    if program is None:
        return CandidateRow(deployment, precision, None, None)
    evaluation = known.get((program.digest, deployment.pool.is_host))
    run = runs.get((program.pk, deployment.pool.pk))
    return CandidateRow(deployment, precision, evaluation, run, unjudgeable(task, program))


def unjudgeable(task: Task, program: Program) -> str:
    """Return why the metric cannot evaluate the program's outputs. Return an empty string if evaluation is possible."""
    name, metric = output_of(task, program), metric_of(task)
    shapes = {one["name"]: [1, *one["shape"]] for one in program.outputs}
    dtypes = {one["name"]: one["dtype"] for one in program.outputs}
    if name not in shapes:
        return f"The program has no output '{name}'. Its outputs are {', '.join(sorted(shapes))}."
    if metric.name in ("exact", "mean_error", *NUMERIC):
        return ""
    try:
        scores = scores_of(np.zeros(shapes[name], dtypes[name]), name)
        if metric.name in ("accuracy", "f1"):
            classes_check(task.data_set.classes, scores.shape[1], name)
    except MetricError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class MissingProgram:
    """A program that a pool lacks. `failed` is the last compile, if that compile failed."""

    version: ModelVersion
    target: str
    precision: str
    sizes: dict[str, int]
    failed: CompileJob | None = None


def missing_of(task: Task) -> list[MissingProgram]:
    """Return the float32 and int8 programs that the offered processors lack and that are not being compiled."""
    versions = versions_of(task)
    programs = _fitting_programs(task, versions)
    newest = {
        (job.model_version_id, job.target, job.precision): job
        for job in _compiles(versions)
        if job.dims == sizes_fitting(job.model_version.inputs, task.data_set.inputs)
    }
    found: dict[tuple[UUID, str, str], MissingProgram] = {}
    for version, target, precision in _lacking(versions, programs):
        sizes = sizes_fitting(version.inputs, task.data_set.inputs)
        key = (version.pk, target, precision)
        job = newest.get(key)
        if sizes is not None and (job is None or job.is_finished):
            failed = job if job and job.state == CompileState.FAILED else None
            found[key] = MissingProgram(version, target, precision, sizes, failed)
    return list(found.values())


def _lacking(versions: Sequence[ModelVersion], programs: list[Program]) -> Iterator[tuple[ModelVersion, str, str]]:
    offered = [pool for pool in pools() if pool.processor is not None]
    for version in versions:
        for pool in offered:
            for precision in (Precision.FLOAT32, Precision.INT8):
                if pool.processor and deployment_of(version, pool, programs, precision).program is None:
                    yield version, pool.processor.name, str(precision)


def compiles_open(task: Task) -> int:
    """Return the number of compiles of the task's models that are queued or running."""
    return sum(not job.is_finished for job in _compiles(versions_of(task)))


def _compiles(versions: Sequence[ModelVersion]) -> list[CompileJob]:
    rows = CompileJob.objects.filter(model_version__in=versions).select_related("model_version")
    return list(rows.order_by("created_at"))
