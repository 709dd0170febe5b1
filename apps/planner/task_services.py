"""Create tasks, compile their programs and request evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from typing import NamedTuple
from uuid import UUID, uuid4

import numpy as np
from django.db import transaction

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import CompileJob, Precision
from apps.compilation.services import compiles_room, job_create
from apps.fleet.models import Pool
from apps.planner import candidates
from apps.planner.candidates import CandidateRow, MissingProgram
from apps.planner.metrics import K_MAX, LIMIT_MAX, METRICS, Metric
from apps.planner.models import EvaluationRun, EvaluationState, Task
from apps.planner.variants import pricer_of
from apps.pricing.limits import tariff_instant, window_of
from apps.pricing.rating import class_default, exact_sum
from apps.pricing.selectors import book_in_force, document_of
from apps.registry.feeds import arrays_pack
from apps.registry.labelled import split
from apps.registry.models import DataSet, ModelVersion
from apps.registry.selectors import SAMPLES, SAMPLES_FOLDER, data_set_read, versions_present
from apps.registry.services import dataset_add, sample_add

CALIBRATION_ITEMS = 100
CLASSES_MAX = 1_000_000  # labels above are values, not class numbers
SAMPLE_DATA = SAMPLES_FOLDER / "digits.npz"
TAKE_UP = "apps.dispatch.tasks.evaluations_take_up"


@transaction.atomic
def task_create(
    *,
    organisation: Organisation,
    name: str,
    data_set: DataSet,
    metric: Metric,
    output: str = "",
    versions: Sequence[UUID] = (),
    actor: User,
    now: datetime,
) -> Task:
    """Store a task. If `versions` is empty, all models that accept the data set's items are candidates.

    Raises Problem(422) if the metric does not suit the data or the models, and Problem(404) for an unknown version.
    """
    _metric_check(metric)
    _labels_check(metric, data_set)
    known = versions_present().filter(organisation=organisation, pk__in=versions)
    _versions_check(list(known), set(versions), data_set)
    task = Task.objects.create(
        organisation=organisation,
        name=name.strip()[:120] or data_set.name,
        data_set=data_set,
        metric=metric.name,
        k=metric.k if metric.name == "accuracy" else 1,
        output=output,
        versions=list(versions),
        created_by=actor,
        created_at=now,
        limit=metric.limit if metric.needs_limit else None,
    )
    _candidates_check(task, metric)
    audit_record(action="task.create", now=now, actor=actor, organisation=organisation, subject=f"task {task.pk}")
    return task


def _metric_check(metric: Metric) -> None:
    if metric.name not in METRICS or not 1 <= metric.k <= K_MAX:
        detail = f"Choose a metric: {', '.join(METRICS)}. k must be between 1 and {K_MAX}."
        raise Problem(422, "Unknown metric", detail, kind="metric-unknown")
    if metric.needs_limit and not (metric.limit is not None and 0 < metric.limit <= LIMIT_MAX):
        title = METRICS[metric.name].partition(":")[0]
        detail = f"{title} needs a limit above 0: the largest error or difference, or a number of dB."
        raise Problem(422, "Limit missing", detail, kind="metric-unknown")


def _labels_check(metric: Metric, data_set: DataSet) -> None:
    if metric.needs_labels and data_set.label_shape is None:
        detail = f"{data_set.name} has no labels. Choose agreement with the float32 model, or upload data with labels."
        raise Problem(422, "Labels missing", detail, kind="labels-missing")
    if metric.name in ("accuracy", "f1", "mean_error") and data_set.label_shape:
        detail = f"{data_set.name} has several labels per item. Choose exact match, or upload data with one label for each item."
        raise Problem(422, "Several labels per item", detail, kind="labels-missing")
    if metric.name in ("accuracy", "f1") and data_set.classes > CLASSES_MAX:
        detail = (
            f"The labels of {data_set.name} go up to {data_set.classes - 1:,}; class numbers can be at most {CLASSES_MAX - 1:,}. "
            "Number the classes from 0. If the labels are measured values, choose mean error."
        )
        raise Problem(422, "Labels are not classes", detail, kind="labels-missing")


def _versions_check(known: Sequence[ModelVersion], wanted: set[UUID], data_set: DataSet) -> None:
    if {one.pk for one in known} != wanted:
        raise Problem(404, "Not found", "This model does not exist, or you may not see it.", kind="not-found")
    for version in known:
        if candidates.sizes_fitting(version.inputs, data_set.inputs) is None:
            takes = ", ".join(f"'{one['name']}' {one['shape']}" for one in version.inputs)
            gives = ", ".join(f"'{one['name']}' {one['shape']}" for one in data_set.inputs)
            detail = f"{version} takes {takes}; one item of {data_set.name} is {gives}."
            raise Problem(422, "The model does not fit the data", detail, kind="data-set-unfitting")


def _candidates_check(task: Task, metric: Metric) -> None:
    found = candidates.versions_of(task)
    if metric.compares_with_float32 and len(found) > 1:
        detail = "This metric compares a model's programs with its own float32 program. Choose one model."
        raise Problem(422, "Several models", detail, kind="metric-unknown")
    if not found:
        wanted = ", ".join(f"'{one['name']}' {one['shape']}" for one in task.data_set.inputs)
        detail = (
            f"No model accepts the items of {task.data_set.name} ({wanted}). Upload a model with these inputs, or upload "
            "other data."
        )
        raise Problem(422, "No model fits the data", detail, kind="data-set-unfitting")


@transaction.atomic
def task_sample(*, organisation: Organisation, actor: User, now: datetime) -> Task:
    """Create the sample task: sample models and handwritten digits with labels."""
    for sample in SAMPLES:
        sample_add(organisation=organisation, actor=actor, slug=sample.slug, now=now)
    data = SAMPLE_DATA.read_bytes()
    data_set, _ = dataset_add(
        organisation=organisation,
        file=BytesIO(data),
        size=len(data),
        name="Handwritten digits",
        seed=1,
        choose_percent=33,
        actor=actor,
        now=now,
    )
    return task_create(
        organisation=organisation,
        name="Read handwritten digits",
        data_set=data_set,
        metric=Metric("accuracy"),
        output="",
        actor=actor,
        now=now,
    )


@transaction.atomic
def task_delete(*, task: Task, actor: User, now: datetime) -> None:
    """Delete a task and cancel its queued evaluations. The task's plans and finished evaluations are kept."""
    row = Task.objects.select_for_update().get(pk=task.pk)
    if row.deleted_at is None:
        queued = EvaluationRun.objects.filter(task=row, state=EvaluationState.QUEUED)
        queued.update(state=EvaluationState.CANCELLED, finished_at=now)
        row.deleted_at = now
        row.save(update_fields=["deleted_at"])
        audit_record(
            action="task.delete", now=now, actor=actor, organisation=row.organisation, subject=f"task {row.pk}"
        )


@transaction.atomic
def programs_compile(*, task: Task, actor: User, now: datetime) -> list[CompileJob]:
    """Queue the missing compiles in float32 and int8, for every processor on offer.

    If the queue has too little room, call this function again for the rest. Raises Problem(429) if the queue is full.
    """
    # The lock makes two clicks queue each compile once.
    Organisation.objects.select_for_update(no_key=True).get(pk=task.organisation_id)
    data_set_check(task)
    missing = [one for one in candidates.missing_of(task) if one.failed is None]
    missing = missing[: max(1, compiles_room(task.organisation))]  # without room, the first one raises
    examples = _examples(task) if any(one.precision != Precision.FLOAT32 for one in missing) else {}
    return [
        job_create(
            version=one.version,
            target=one.target,
            actor=actor,
            now=now,
            precision=one.precision,
            dims=dict(one.sizes),
            calibration=None if one.precision == Precision.FLOAT32 else _calibration(examples, one),
        )
        for one in missing
    ]


def data_set_check(task: Task) -> None:
    """Raise Problem(409) if the task's data set was deleted."""
    task.data_set.refresh_from_db()
    if task.data_set.deleted_at is not None:
        detail = f"The file of {task.data_set.name} was deleted. Upload the data set again and create a new task."
        raise Problem(409, "Data set deleted", detail, kind="data-set-gone")


def _examples(task: Task) -> dict[str, np.ndarray]:
    data = task.data_set
    chosen = split(data.items, seed=data.seed, choose=data.choose).choose[:CALIBRATION_ITEMS]
    return {name: array[chosen] for name, array in data_set_read(data).inputs.items()}


def _calibration(examples: dict[str, np.ndarray], missing: MissingProgram) -> bytes:
    inputs = missing.version.inputs
    named = dict(zip([inputs[0]["name"]], examples.values(), strict=True)) if len(inputs) == 1 else examples
    return arrays_pack({one["name"]: named[one["name"]].astype(one["dtype"]) for one in inputs})


class EvaluationOffer(NamedTuple):
    """The candidate rows to evaluate, the price of each pool's contract, and the class of service."""

    rows: list[CandidateRow]
    prices: dict[Pool, Decimal]
    currency: str
    klass: str

    @property
    def total(self) -> Decimal:
        return exact_sum(self.prices.values())


def evaluations_priced(task: Task, *, rows: Sequence[CandidateRow], now: datetime) -> EvaluationOffer:
    """Return the task's rows that can be evaluated now, with the price of each pool's contract.

    Rows without a price are left out. Raises Problem if there is no price book.
    """
    book = document_of(book_in_force(at=now))
    klass = class_default(book)
    instant = tariff_instant(book=book, price_class=book.price_class(klass), window=window_of(None, None, now=now))
    by_pool: dict[Pool, list[CandidateRow]] = defaultdict(list)
    for row in _once(task, rows):
        by_pool[row.deployment.pool].append(row)
    prices, priced = {}, []
    for pool, some in by_pool.items():
        amounts = []
        for row in some:
            assert row.program is not None
            try:
                amounts.append(pricer_of(row.program, pool, klass, book, instant)(task.data_set.items))
            except ValueError:
                continue
            priced.append(row)
        if amounts:
            prices[pool] = max(exact_sum(amounts), book.contract_minimum)
    return EvaluationOffer(priced, prices, book.currency.code, klass)


def _once(task: Task, rows: Sequence[CandidateRow]) -> list[CandidateRow]:
    running = EvaluationRun.objects.filter(
        task__data_set=task.data_set_id,
        task__metric=task.metric,
        task__k=task.k,
        task__limit=task.limit,
        task__output=task.output,
        finished_at=None,
    )
    seen = {(run.program.digest, run.pool.is_host) for run in running.select_related("program", "pool")}
    chosen = []
    for row in rows:
        if row.program is not None and row.can_be_evaluated:
            key = (row.program.digest, row.deployment.pool.is_host)
            if key not in seen:
                seen.add(key)
                chosen.append(row)
    return chosen


@transaction.atomic
def evaluations_request(*, task: Task, actor: User, now: datetime, token_id: UUID | None = None) -> list[EvaluationRun]:
    """Request all missing evaluations, under one contract per pool.

    Raises Problem(409) if nothing is missing or the data set was deleted.
    """
    # The lock makes two clicks, or two tasks, request an evaluation once.
    DataSet.objects.select_for_update().get(pk=task.data_set_id)
    data_set_check(task)
    if not Task.objects.filter(pk=task.pk, deleted_at=None).exists():
        raise Problem(404, "Not found", "This task was deleted.", kind="not-found")
    rows = candidates.rows_of(task)
    offer = evaluations_priced(task, rows=rows, now=now)
    if not offer.rows:
        problems = dict.fromkeys(row.problem for row in rows if row.problem)
        detail = " ".join(problems) or "Every compiled program with a price has been evaluated or is being evaluated."
        raise Problem(409, "Nothing to evaluate", detail, kind="nothing-to-evaluate")
    batch = uuid4()
    runs = EvaluationRun.objects.bulk_create(
        EvaluationRun(
            organisation_id=task.organisation_id,
            task=task,
            program=row.program,
            pool=row.deployment.pool,
            klass=offer.klass,
            batch=batch,
            most=offer.prices[row.deployment.pool],
            created_by=actor,
            token_id=token_id,
            created_at=now,
        )
        for row in offer.rows
    )
    audit_record(
        action="evaluation.request",
        now=now,
        actor=actor,
        organisation=task.organisation,
        subject=f"task {task.pk}",
        detail={"programs": [row.program.digest for row in offer.rows if row.program]},
    )
    task_send_on_commit(TAKE_UP, queue="dispatch")
    return runs


@transaction.atomic
def evaluations_cancel(*, task: Task, now: datetime) -> int:
    """Cancel the queued evaluations, and return the number of cancelled evaluations."""
    rows = EvaluationRun.objects.select_for_update(skip_locked=True).filter(task=task, state=EvaluationState.QUEUED)
    return EvaluationRun.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=EvaluationState.CANCELLED, finished_at=now
    )
