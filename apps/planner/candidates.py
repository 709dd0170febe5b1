"""Which programs can do a task, and what is known of each: compiled or not, evaluated or not, and at what price."""

from __future__ import annotations

from collections.abc import Sequence
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
class Row:
    """A model in a precision on a pool. `program` is None until it is compiled; `run` is the newest request."""

    deployment: Deployment
    precision: str
    evaluation: Evaluation | None
    run: EvaluationRun | None
    problem: str = ""  # why its answers could not be judged

    @property
    def program(self) -> Program | None:
        return self.deployment.program

    @property
    def bound_text(self) -> str:
        """What is proven of it as people read it; empty where it was not evaluated."""
        one = self.evaluation
        return "" if one is None else score_format_of(one.metric).text(Fraction(one.lower_bound))

    @property
    def is_open(self) -> bool:
        """A request waits or runs."""
        return self.run is not None and self.run.finished_at is None

    @property
    def can_be_evaluated(self) -> bool:
        """Compiled, and neither evaluated nor asked for."""
        return self.program is not None and self.evaluation is None and not self.is_open and not self.problem


def tasks_of(organisation: Organisation) -> QuerySet[Task]:
    """The organisation's tasks, newest first."""
    rows = Task.objects.filter(organisation=organisation, deleted_at=None)
    return rows.select_related("data_set").order_by("-created_at", "-id")


def lengths_fitting(wanted: Values, given: Values) -> dict[str, int] | None:
    """The variable dimensions with which inputs `wanted` take one item of a data set; None where they cannot.

    Names must agree, unless there is one input on both sides. A leading 1 may be left out of an item's shape.
    """
    shapes = {value["name"]: list(value["shape"]) for value in given}
    if len(wanted) == 1 and len(shapes) == 1:
        shapes = {wanted[0]["name"]: next(iter(shapes.values()))}
    if {value["name"] for value in wanted} != set(shapes):
        return None
    lengths: dict[str, int] = {}
    for value in wanted:
        own, item = list(value["shape"]), shapes[value["name"]]
        item = [1, *item] if len(item) == len(own) - 1 and own[:1] != [] and own[0] in (1, *_symbols(own)) else item
        if len(item) != len(own):
            return None
        for size, length in zip(own, item, strict=True):
            if (lengths.setdefault(size, length) if isinstance(size, str) else size) != length:
                return None
    return lengths


def _symbols(shape: Sequence[Any]) -> list[str]:
    return [size for size in shape if isinstance(size, str)]


def versions_of(task: Task) -> list[ModelVersion]:
    """The candidate versions: those that the task names, or the newest of every model that takes the data set's items."""
    present = versions_present().filter(organisation_id=task.organisation_id)
    if task.versions:
        return list(present.filter(pk__in=task.versions).order_by("model__name", "number"))
    newest: dict[UUID, ModelVersion] = {}
    for version in present.order_by("model__name", "number"):
        newest[version.model_id] = version
    return [one for one in newest.values() if lengths_fitting(one.inputs, task.data_set.inputs) is not None]


def metric_of(task: Task) -> Metric:
    """How the task judges."""
    return Metric(task.metric, task.k, task.limit)


def metric_title(task: Task) -> str:
    """The metric as evaluations name it; with the output where the task names one."""
    return metric_of(task).title + (f" of {task.output}" if task.output else "")


def output_of(task: Task, program: Program) -> str:
    """The output that is judged: the named one, else the first that has one score for each class, else the first."""
    if task.output:
        return task.output
    scored = [one["name"] for one in program.outputs if len([size for size in one["shape"] if size != 1]) == 1]
    first: str = [*scored, *(one["name"] for one in program.outputs)][0]
    return first


def evaluations_of(task: Task, *, with_items: bool = True) -> dict[tuple[str, bool], Evaluation]:
    """(digest of the program, whether on a host) -> what the platform measured with the task's data and metric; the answers
    are large, and read only where they are wanted."""
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
    """Whether the program takes one item of the data set."""
    return lengths_fitting(program.inputs, data_set.inputs) is not None


def candidate_models_of_task(task: Task) -> CandidateModels:
    """The task's candidates for a plan: nothing is promised of a program that the platform has not evaluated."""
    known = evaluations_of(task)

    def evaluation(deployment: Deployment, _precision: str) -> Evaluation | None:
        return known.get((deployment.program.digest, deployment.pool.is_host)) if deployment.program else None

    return CandidateModels(versions_of(task), lambda program: fits(program, task.data_set), evaluation)


def rows_of(task: Task) -> list[Row]:
    """Every candidate of the task: each version in each precision that it has on each active pool."""
    versions = versions_of(task)
    programs = [p for p in programs_of_versions([one.pk for one in versions]) if fits(p, task.data_set)]
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


def _row(
    task: Task,
    deployment: Deployment,
    precision: str,
    known: dict[tuple[str, bool], Evaluation],
    runs: dict[tuple[UUID, UUID], EvaluationRun],
) -> Row:
    program = deployment.program
    if program is None:
        return Row(deployment, precision, None, None)
    evaluation, run = known.get((program.digest, deployment.pool.is_host)), runs.get((program.pk, deployment.pool.pk))
    return Row(deployment, precision, evaluation, run, unjudgeable(task, program))


def unjudgeable(task: Task, program: Program) -> str:
    """Why the program's answers cannot be judged, known from its outputs before it runs; empty where they can."""
    name, metric = output_of(task, program), metric_of(task)
    shapes = {one["name"]: [1, *one["shape"]] for one in program.outputs}
    dtypes = {one["name"]: one["dtype"] for one in program.outputs}
    if name not in shapes:
        return f"It has no output '{name}'; it has {', '.join(sorted(shapes))}."
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
class Missing:
    """A program that could be compiled: for the target of a pool, with these lengths. `failed` is the compile that was
    tried last and failed: it is not tried again by itself."""

    version: ModelVersion
    target: str
    precision: str
    lengths: dict[str, int]
    failed: CompileJob | None = None


def missing_of(task: Task) -> list[Missing]:
    """float32 and int8 programs of the candidates, for a processor on offer, that nobody compiled or is compiling."""
    versions = versions_of(task)
    programs = [p for p in programs_of_versions([one.pk for one in versions]) if fits(p, task.data_set)]
    newest = {
        (job.model_version_id, job.target, job.precision): job
        for job in _compiles(versions)
        if job.dims == lengths_fitting(job.model_version.inputs, task.data_set.inputs)
    }
    found: dict[tuple[UUID, str, str], Missing] = {}
    offered = list(pools())
    for version in versions:
        lengths = lengths_fitting(version.inputs, task.data_set.inputs)
        for pool in offered:
            for precision in (Precision.FLOAT32, Precision.INT8):
                if pool.processor is None or lengths is None:
                    continue
                if deployment_of(version, pool, programs, precision).program is not None:
                    continue
                key = (version.pk, pool.processor.name, str(precision))
                job = newest.get(key)
                if job is None or job.is_finished:
                    failed = job if job and job.state == CompileState.FAILED else None
                    found[key] = Missing(version, pool.processor.name, precision, lengths, failed)
    return list(found.values())


def compiles_open(task: Task) -> int:
    """How many compiles of the candidates are under way."""
    return sum(not job.is_finished for job in _compiles(versions_of(task)))


def _compiles(versions: Sequence[ModelVersion]) -> list[CompileJob]:
    """The compiles of these versions, oldest first."""
    rows = CompileJob.objects.filter(model_version__in=versions).select_related("model_version")
    return list(rows.order_by("created_at"))
