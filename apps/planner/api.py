"""JSON API for plans."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal
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
from apps.accounts.numbers import Instant, Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING, Scope
from apps.planner import selectors, services
from apps.planner.hosting_api import router as places_router
from apps.planner.models import Plan, Task
from apps.planner.solver import Requirements
from apps.planner.task_api import router as tasks_router
from apps.registry.models import ModelVersion
from apps.registry.selectors import versions_present

router = Router(tags=["plans"])
router.add_router("", tasks_router)
router.add_router("", places_router)
BUILD = requires(Scope.BUILD, roles=ENGINEERING)


class PlanIn(RequestBody):
    """The requirements for a plan, as exact decimals. An omitted field sets no requirement.

    Times are in seconds, and the accuracy is a share from 0 to 1. `until` is the deadline for all items; the default is
    the end of a quote's default window.
    """

    version_id: UUID | None = Field(default=None, description="A model version; its alternatives are also candidates.")
    task_id: UUID | None = Field(
        default=None, description="A task with evaluated models. Give either `version_id` or `task_id`."
    )
    items: Whole = Field(ge=1, le=services.ITEMS_MAX)
    accuracy: Decimal | None = Field(
        default=None,
        gt=0,
        lt=1,
        max_digits=20,
        description="The minimum value of the task's metric, as a share; for the mean error, 1 - error / limit.",
    )
    latency_seconds: Decimal | None = Field(default=None, gt=0, max_digits=30)
    duration_seconds: Decimal | None = Field(default=None, gt=0, max_digits=30)
    budget: Decimal | None = Field(default=None, gt=0, max_digits=30)
    until: Instant | None = None
    objective: Literal["cost", "latency", "device_time"] = Field(
        default="cost",
        description="What to minimise: price, latency of one item, or device time of all items.",
    )
    klass: str = Field(
        default="",
        max_length=40,
        description=(
            "A class of service in the price book. If empty, `standard` is used; if the price book has no "
            "`standard`, its first class is used."
        ),
    )
    dims: dict[str, Whole] | None = None


class PlanOut(Schema):
    """A plan. Fractions are written as "3/4", and amounts with all their digits.

    `candidates` starts with the best candidate. `chosen` is null if no candidate is feasible.
    """

    id: UUID
    version_id: UUID | None
    task_id: UUID | None
    title: str
    requirements: dict[str, Any]
    candidates: list[dict[str, Any]]
    chosen: dict[str, Any] | None
    changes: list[dict[str, Any]]
    basis: dict[str, Any]
    created_at: datetime

    @staticmethod
    def resolve_version_id(row: Plan) -> UUID | None:
        return row.model_version_id


def _fraction(value: Decimal | None) -> Fraction | None:
    return None if value is None else Fraction(value)


def _subject(request: HttpRequest, payload: PlanIn) -> ModelVersion | Task:
    if (payload.version_id is None) == (payload.task_id is None):
        detail = "State either version_id or task_id."
        raise Problem(422, "No model", detail, kind="model-missing")
    if payload.task_id is not None:
        tasks = Task.objects.filter(deleted_at=None).select_related("data_set", "organisation")
        return org_object_get(request, tasks, roles=ENGINEERING, pk=payload.task_id)
    version: ModelVersion = org_object_get(request, versions_present(), roles=ENGINEERING, pk=payload.version_id)
    return version


@router.post("/plans", auth=BUILD, response={201: PlanOut}, summary="Find the cheapest candidate for a task")
@idempotent
def plan_create(request: HttpRequest, payload: PlanIn) -> tuple[int, Plan]:
    subject = _subject(request, payload)
    requirements = Requirements(
        items=payload.items,
        accuracy=_fraction(payload.accuracy),
        latency=_fraction(payload.latency_seconds),
        duration=_fraction(payload.duration_seconds),
        budget=payload.budget,
        objective=payload.objective,
    )
    plan = services.plan_create(
        subject=subject,
        requirements=requirements,
        klass=payload.klass,
        dims=payload.dims,
        until=payload.until,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return 201, plan


@router.get("/plans", response=list[PlanOut], summary="Plans, newest first")
@paginate(Cursor, ordering=("-created_at", "-id"))
def plan_list(request: HttpRequest) -> QuerySet[Plan]:
    return selectors.plans_list(organisation=organisation_get(request))


@router.get("/plans/{uuid:pk}", response=PlanOut, summary="One plan")
def plan_get(request: HttpRequest, pk: UUID) -> Plan:
    return org_object_get(request, Plan, pk=pk)
