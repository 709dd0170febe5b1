"""The API of tasks and their evaluations."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import ENGINEERING, Scope
from apps.planner import candidates, task_services
from apps.planner.metrics import K_MAX, LIMIT_MAX, Metric
from apps.planner.models import EvaluationRun, EvaluationState, Task
from apps.registry.models import DataSet

router = Router(tags=["tasks"])
BUILD = requires(Scope.BUILD, roles=ENGINEERING)
BUY = requires(Scope.BUY, roles=ENGINEERING)


class TaskIn(RequestBody):
    """`versions` are the candidate model versions. If `versions` is empty, every model that accepts the data set's
    items is a candidate. `k` is for `accuracy` only. `limit` is the largest error for `mean_error`, the largest
    difference for `close`, and a ratio in dB for `snr`.
    """

    name: str = Field(default="", max_length=120)
    data_set_id: UUID
    metric: str = Field(default="accuracy", max_length=20)
    k: Whole = Field(default=1, ge=1, le=K_MAX)
    limit: Decimal | None = Field(default=None, gt=0, le=LIMIT_MAX, max_digits=18, decimal_places=9)
    output: str = Field(default="", max_length=200)
    versions: list[UUID] = Field(default_factory=list, max_length=200)


class TaskRow(Schema):
    id: UUID
    name: str
    data_set_id: UUID
    metric: str
    k: int
    limit: Decimal | None
    output: str
    versions: list[UUID]
    created_at: datetime


class TaskCandidateOut(Schema):
    """`lower_bound` is a lower bound of the share of right answers, at 95 % confidence. `lower_bound` is null if the
    program has not been evaluated.
    """

    version_id: UUID
    model: str
    precision: str
    pool: str
    program_id: UUID | None
    state: str
    note: str
    job_id: UUID | None
    contract_id: UUID | None
    correct: int | None
    total: int | None
    lower_bound: str | None


class TaskOut(TaskRow):
    candidates: list[TaskCandidateOut]


class EvaluationRunOut(Schema):
    id: UUID
    program_id: UUID
    pool: str
    state: EvaluationState
    note: str
    problem: str
    job_id: UUID | None
    contract_id: UUID | None
    created_at: datetime
    finished_at: datetime | None

    @staticmethod
    def resolve_pool(row: EvaluationRun) -> str:
        return row.pool.slug


def _task(request: HttpRequest, pk: UUID, **access: Any) -> Task:
    tasks = Task.objects.filter(deleted_at=None).select_related("data_set", "organisation")
    return org_object_get(request, tasks, pk=pk, **access)


def _state(row: candidates.CandidateRow) -> str:
    if row.evaluation:
        return "evaluated"
    if row.program is None:
        return "not compiled"
    return row.run.state if row.run else "not evaluated"


def _candidate(row: candidates.CandidateRow) -> TaskCandidateOut:
    run, evaluation = row.run, row.evaluation
    return TaskCandidateOut(
        version_id=row.deployment.version.pk,
        model=str(row.deployment.version),
        precision=row.precision,
        pool=row.deployment.pool.slug,
        program_id=row.program.pk if row.program else None,
        state=_state(row),
        note=(run.problem or run.note) if run else "",
        job_id=run.job_id if run else None,
        contract_id=run.contract_id if run else None,
        correct=evaluation.correct if evaluation else None,
        total=evaluation.total if evaluation else None,
        lower_bound=str(evaluation.lower_bound) if evaluation else None,
    )


@router.post("/tasks", auth=BUILD, response={201: TaskRow}, summary="Create a task: data, metric, models")
@idempotent
def task_create(request: HttpRequest, payload: TaskIn) -> tuple[int, Task]:
    data_set = org_object_get(
        request, DataSet.objects.filter(deleted_at=None), roles=ENGINEERING, pk=payload.data_set_id
    )
    task = task_services.task_create(
        organisation=organisation_get(request, roles=ENGINEERING),
        name=payload.name,
        data_set=data_set,
        metric=Metric(payload.metric, payload.k, payload.limit),
        output=payload.output,
        versions=payload.versions,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return 201, task


@router.get("/tasks", auth=requires(Scope.READ), response=list[TaskRow], summary="Tasks, newest first")
@paginate(Cursor, ordering=("-created_at", "-id"))
def task_list(request: HttpRequest) -> QuerySet[Task]:
    return candidates.tasks_of(organisation_get(request))


@router.get("/tasks/{uuid:pk}", auth=requires(Scope.READ), response=TaskOut, summary="A task and its candidates")
def task_get(request: HttpRequest, pk: UUID) -> TaskOut:
    task = _task(request, pk)
    rows = [_candidate(row) for row in candidates.rows_of(task)]
    return TaskOut(**TaskRow.from_orm(task).dict(), candidates=rows)


@router.delete("/tasks/{uuid:pk}", auth=BUILD, response={204: None}, summary="Delete a task; its plans are kept")
def task_delete(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    task = _task(request, pk, roles=ENGINEERING)
    task_services.task_delete(task=task, actor=principal_get(request).user, now=timezone.now())
    return 204, None


@router.post(
    "/tasks/{uuid:pk}/evaluations",
    auth=BUY,
    response={201: list[EvaluationRunOut]},
    summary="Evaluate all programs that have not been evaluated",
)
@idempotent
def task_evaluate(request: HttpRequest, pk: UUID) -> tuple[int, list[EvaluationRun]]:
    """Evaluate all compiled programs that have not been evaluated yet. The jobs run under one contract per pool."""
    principal = principal_get(request)
    runs = task_services.evaluations_request(
        task=_task(request, pk, roles=ENGINEERING),
        actor=principal.user,
        now=timezone.now(),
        token_id=principal.token.pk if principal.token else None,
    )
    return 201, runs


@router.get(
    "/tasks/{uuid:pk}/evaluations",
    auth=requires(Scope.READ),
    response=list[EvaluationRunOut],
    summary="A task's evaluations",
)
@paginate(Cursor, ordering=("-created_at", "-id"))
def task_evaluations(request: HttpRequest, pk: UUID) -> QuerySet[EvaluationRun]:
    return EvaluationRun.objects.filter(task=_task(request, pk)).select_related("pool").order_by("-created_at", "-id")
