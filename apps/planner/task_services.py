"""Tasks, and what they ask of dispatch: programs to compile and programs to evaluate."""

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
from apps.planner.candidates import Missing, Row
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
    """Keep a task. `versions` empty: all models that take the data set's items. Raises Problem(422)."""
    if metric.name not in METRICS or not 1 <= metric.k <= K_MAX:
        detail = f"Choose one of {', '.join(METRICS)}, and k from 1 to {K_MAX}."
        raise Problem(422, "No such metric", detail, kind="metric-unknown")
    if metric.needs_limit and not (metric.limit is not None and 0 < metric.limit <= LIMIT_MAX):
        detail = (
            f"{METRICS[metric.name].partition(':')[0]} needs a limit above 0: the largest error or difference, or dB."
        )
        raise Problem(422, "No limit", detail, kind="metric-unknown")
    if metric.needs_labels and data_set.label_shape is None:
        detail = f"{data_set.name} has no labels; choose agreement with the float32 model, or upload data with labels."
        raise Problem(422, "Labels are missing", detail, kind="labels-missing")
    if metric.name in ("accuracy", "f1", "mean_error") and data_set.label_shape:
        detail = f"{data_set.name} has several labels an item; choose exact match, or upload data with one label each."
        raise Problem(422, "Several labels an item", detail, kind="labels-missing")
    known = versions_present().filter(organisation=organisation, pk__in=versions)
    _fitting_check(list(known), set(versions), data_set)
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
    found = candidates.versions_of(task)
    if metric.compares_with_float32 and len(found) > 1:
        detail = "This metric compares a model's programs with its own float32 program. Choose one model."
        raise Problem(422, "Several models", detail, kind="metric-unknown")
    if not found:
        wanted = ", ".join(f"'{one['name']}' {one['shape']}" for one in data_set.inputs)
        detail = (
            f"No model takes the items of {data_set.name} ({wanted}). Upload a model with these inputs, or other data."
        )
        raise Problem(422, "No model fits the data", detail, kind="data-set-unfitting")
    audit_record(action="task.create", now=now, actor=actor, organisation=organisation, subject=f"task {task.pk}")
    return task


@transaction.atomic
def task_sample(*, organisation: Organisation, actor: User, now: datetime) -> Task:
    """The sample task: handwritten digits that no sample model was trained on, and the sample models."""
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


def _fitting_check(known: Sequence[ModelVersion], wanted: set[UUID], data_set: DataSet) -> None:
    """Every named version is there and takes the data set's items. Raises Problem."""
    if {one.pk for one in known} != wanted:
        raise Problem(404, "Not found", "There is no such model here, or it is not yours to see.", kind="not-found")
    for version in known:
        if candidates.lengths_fitting(version.inputs, data_set.inputs) is None:
            takes = ", ".join(f"'{one['name']}' {one['shape']}" for one in version.inputs)
            gives = ", ".join(f"'{one['name']}' {one['shape']}" for one in data_set.inputs)
            detail = f"{version} takes {takes}; one item of {data_set.name} is {gives}."
            raise Problem(422, "The model does not fit the data", detail, kind="data-set-unfitting")


@transaction.atomic
def task_delete(*, task: Task, actor: User, now: datetime) -> None:
    """Remove a task from the list. Its plans and evaluations stay; requests that wait are cancelled."""
    row = Task.objects.select_for_update().get(pk=task.pk)
    if row.deleted_at is None:
        waiting = EvaluationRun.objects.filter(task=row, state=EvaluationState.QUEUED)
        waiting.update(state=EvaluationState.CANCELLED, finished_at=now)
        row.deleted_at = now
        row.save(update_fields=["deleted_at"])
        audit_record(
            action="task.delete", now=now, actor=actor, organisation=row.organisation, subject=f"task {row.pk}"
        )


@transaction.atomic
def programs_compile(*, task: Task, actor: User, now: datetime) -> list[CompileJob]:
    """Queue the compile of every candidate that has no program yet, in float32 and int8, for every processor on offer.

    As many as the queue has room for; ask again for the rest. int8 is calibrated on items that choose, never on those that
    promise. Raises Problem(429) when the queue has no room.
    """
    Organisation.objects.select_for_update(no_key=True).get(
        pk=task.organisation_id
    )  # two clicks queue each compile once
    data_set_check(task)
    missing = [one for one in candidates.missing_of(task) if one.failed is None]
    missing = missing[: max(1, compiles_room(task.organisation))]  # where there is none, the first says so
    examples = _examples(task) if any(one.precision != Precision.FLOAT32 for one in missing) else {}
    return [
        job_create(
            version=one.version,
            target=one.target,
            actor=actor,
            now=now,
            precision=one.precision,
            dims=dict(one.lengths),
            calibration=None if one.precision == Precision.FLOAT32 else _calibration(examples, one),
        )
        for one in missing
    ]


def data_set_check(task: Task) -> None:
    """The data set is still there. Raises Problem(409)."""
    task.data_set.refresh_from_db()
    if task.data_set.deleted_at is not None:
        detail = f"The file of {task.data_set.name} was deleted; upload it again and make a new task."
        raise Problem(409, "The data set is gone", detail, kind="data-set-gone")


def _examples(task: Task) -> dict[str, np.ndarray]:
    """Inputs of the first items that choose."""
    data = task.data_set
    chosen = split(data.items, seed=data.seed, choose=data.choose).choose[:CALIBRATION_ITEMS]
    return {name: array[chosen] for name, array in data_set_read(data).inputs.items()}


def _calibration(examples: dict[str, np.ndarray], missing: Missing) -> bytes:
    """The examples under the names and in the types of the version's inputs."""
    inputs = missing.version.inputs
    named = dict(zip([inputs[0]["name"]], examples.values(), strict=True)) if len(inputs) == 1 else examples
    return arrays_pack({one["name"]: named[one["name"]].astype(one["dtype"]) for one in inputs})


class Asked(NamedTuple):
    """What evaluating these rows comes to: `prices` by pool, in the price book's currency."""

    rows: list[Row]
    prices: dict[Pool, Decimal]
    currency: str
    klass: str

    @property
    def total(self) -> Decimal:
        return exact_sum(self.prices.values())


def evaluations_priced(task: Task, *, rows: Sequence[Row], now: datetime) -> Asked:
    """Which of the task's rows can be evaluated now, and what the contracts will cost: one for each pool.

    A pool that cannot be priced now (not offered, not measured) is left out. Raises Problem while no book is in force.
    """
    book = document_of(book_in_force(at=now))
    klass = class_default(book)
    instant = tariff_instant(book=book, price_class=book.price_class(klass), window=window_of(None, None, now=now))
    found: dict[Pool, list[Row]] = defaultdict(list)
    for row in _once(task, rows):
        found[row.deployment.pool].append(row)
    prices, priced = {}, []
    for pool, some in found.items():
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
    return Asked(priced, prices, book.currency.code, klass)


def _once(task: Task, rows: Sequence[Row]) -> list[Row]:
    """The rows that can be evaluated, each program once: not where it runs already, for this task or another one with the
    same data and metric."""
    asked = EvaluationRun.objects.filter(
        task__data_set=task.data_set_id,
        task__metric=task.metric,
        task__k=task.k,
        task__limit=task.limit,
        task__output=task.output,
        finished_at=None,
    )
    taken = {(run.program.digest, run.pool.is_host) for run in asked.select_related("program", "pool")}
    chosen = []
    for row in rows:
        if row.program is not None and row.can_be_evaluated:
            key = (row.program.digest, row.deployment.pool.is_host)
            if key not in taken:
                taken.add(key)
                chosen.append(row)
    return chosen


@transaction.atomic
def evaluations_request(*, task: Task, actor: User, now: datetime, token_id: UUID | None = None) -> list[EvaluationRun]:
    """Ask for every evaluation that is missing; dispatch takes them up as jobs under one contract for each pool.

    Raises Problem(409) where nothing is missing, or the data set was deleted.
    """
    DataSet.objects.select_for_update().get(pk=task.data_set_id)  # two clicks, and two tasks, ask once
    data_set_check(task)
    if not Task.objects.filter(pk=task.pk, deleted_at=None).exists():
        raise Problem(404, "Not found", "This task was deleted.", kind="not-found")
    rows = candidates.rows_of(task)
    asked = evaluations_priced(task, rows=rows, now=now)
    if not asked.rows:
        problems = dict.fromkeys(row.problem for row in rows if row.problem)
        detail = (
            " ".join(problems) or "Every program that is compiled and priced has been evaluated, or is being evaluated."
        )
        raise Problem(409, "Nothing to evaluate", detail, kind="nothing-to-evaluate")
    batch = uuid4()
    runs = EvaluationRun.objects.bulk_create(
        EvaluationRun(
            organisation_id=task.organisation_id,
            task=task,
            program=row.program,
            pool=row.deployment.pool,
            klass=asked.klass,
            batch=batch,
            most=asked.prices[row.deployment.pool],
            created_by=actor,
            token_id=token_id,
            created_at=now,
        )
        for row in asked.rows
    )
    audit_record(
        action="evaluation.request",
        now=now,
        actor=actor,
        organisation=task.organisation,
        subject=f"task {task.pk}",
        detail={"programs": [row.program.digest for row in asked.rows if row.program]},
    )
    task_send_on_commit(TAKE_UP, queue="dispatch")
    return runs


@transaction.atomic
def evaluations_cancel(*, task: Task, now: datetime) -> int:
    """Cancel what dispatch has not taken up yet; returns how many. Jobs that run are cancelled on their own pages."""
    rows = EvaluationRun.objects.select_for_update(skip_locked=True).filter(task=task, state=EvaluationState.QUEUED)
    return EvaluationRun.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=EvaluationState.CANCELLED, finished_at=now
    )
