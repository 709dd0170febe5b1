"""Who may open the addresses of the planner."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
from apps.planner.models import Plan
from tests.cast import Cast
from tests.registry.tenancy import bare_version
from tests.tenancy import operation, page


def a_plan(cast: Cast) -> dict[str, Any]:
    wanted = {"items": 10, "accuracy": None, "latency": None, "duration": None, "budget": None, "klass": "standard"}
    basis = {"book": 1, "book_digest": "0" * 64, "currency": "EUR", "examined": 0, "error": "1/20", "dims": {}}
    plan = Plan.objects.create(
        organisation=cast.organisation, model_version=bare_version(cast), title="net: 10 items", requirements=wanted,
        candidates=[], basis=basis, created_by=cast.engineer, created_at=timezone.now(),
    )  # fmt: skip
    return {"pk": plan.pk}


ROUTES = [
    page("/plans"),
    page("/plans/new", "GET", "POST", roles=ENGINEERING),
    page("/plans/compile", "POST", roles=ENGINEERING),
    page("/plans/<uuid:pk>", make=a_plan),
    page("/plans/<uuid:pk>/plan.json", make=a_plan),
    operation("POST /plans", roles=ENGINEERING, scope=Scope.BUILD, body={}),
    operation("GET /plans"),
    operation("GET /plans/{uuid:pk}", make=a_plan),
]
