"""Who may open the addresses of the planner."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
from apps.planner.models import Plan, Task
from tests.cast import Cast
from tests.registry.tenancy import bare_data_set, bare_version
from tests.tenancy import operation, page


def a_plan(cast: Cast) -> dict[str, Any]:
    wanted = {"items": 10, "accuracy": None, "latency": None, "duration": None, "budget": None, "klass": "standard"}
    basis = {"book": 1, "book_digest": "0" * 64, "currency": "EUR", "examined": 0, "error": "1/20", "dims": {}}
    plan = Plan.objects.create(
        organisation=cast.organisation, model_version=bare_version(cast), title="net: 10 items", requirements=wanted,
        candidates=[], basis=basis, created_by=cast.engineer, created_at=timezone.now(),
    )  # fmt: skip
    return {"pk": plan.pk}


def a_data_set(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_data_set(cast).pk}


def a_task(cast: Cast) -> dict[str, Any]:
    task = Task.objects.create(
        organisation=cast.organisation, name="digits", data_set=bare_data_set(cast), metric="accuracy",
        created_by=cast.engineer, created_at=timezone.now(),
    )  # fmt: skip
    return {"pk": task.pk}


ROUTES = [
    page("/tasks"),
    page("/tasks/new", "GET", "POST", roles=ENGINEERING),
    page("/tasks/sample", "POST", roles=ENGINEERING),
    page("/tasks/<uuid:pk>", make=a_task),
    page("/tasks/<uuid:pk>/compile", "POST", make=a_task, roles=ENGINEERING),
    page("/tasks/<uuid:pk>/evaluate", "POST", make=a_task, roles=ENGINEERING),
    page("/tasks/<uuid:pk>/cancel", "POST", make=a_task, roles=ENGINEERING),
    page("/tasks/<uuid:pk>/delete", "POST", make=a_task, roles=ENGINEERING),
    page("/tasks/<uuid:pk>/plan", "GET", "POST", make=a_task, roles=ENGINEERING),
    page("/data-sets/<uuid:pk>/file", make=a_data_set),
    page("/data-sets/<uuid:pk>/delete", "POST", make=a_data_set, roles=ENGINEERING),
    operation("POST /tasks", roles=ENGINEERING, scope=Scope.BUILD, body={}),
    operation("GET /tasks"),
    operation("GET /tasks/{uuid:pk}", make=a_task),
    operation("DELETE /tasks/{uuid:pk}", make=a_task, roles=ENGINEERING, scope=Scope.BUILD),
    operation("POST /tasks/{uuid:pk}/evaluations", make=a_task, roles=ENGINEERING, scope=Scope.BUY),
    operation("GET /tasks/{uuid:pk}/evaluations", make=a_task),
    page("/plans"),
    page("/plans/new", "GET", "POST", roles=ENGINEERING),
    page("/plans/compile", "POST", roles=ENGINEERING),
    page("/plans/<uuid:pk>", make=a_plan),
    page("/plans/<uuid:pk>/plan.json", make=a_plan),
    operation("POST /plans", roles=ENGINEERING, scope=Scope.BUILD, body={}),
    operation("GET /plans"),
    operation("GET /plans/{uuid:pk}", make=a_plan),
]
