"""Who may open the addresses of the planner."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
from apps.planner.hosting_services import MachineFacts, machine_add, measurement_import, pricelist_import
from apps.planner.models import Plan, Task
from tests.cast import Cast
from tests.planner.places import file_of, written_by_hand
from tests.registry.tenancy import bare_data_set, bare_version
from tests.tenancy import operation, page


def a_plan(cast: Cast) -> dict[str, Any]:
    wanted = {"items": 10, "accuracy": None, "latency": None, "duration": None, "budget": None, "klass": "standard"}
    basis = {"book": 1, "book_digest": "0" * 64, "currency": "EUR", "examined": 0, "error": "1/20", "dims": {}}
    plan = Plan.objects.create(
        organisation=cast.organisation,
        model_version=bare_version(cast),
        title="net: 10 items",
        requirements=wanted,
        candidates=[],
        basis=basis,
        created_by=cast.engineer,
        created_at=timezone.now(),
    )
    return {"pk": plan.pk}


def a_data_set(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_data_set(cast).pk}


def a_task(cast: Cast) -> dict[str, Any]:
    task = Task.objects.create(
        organisation=cast.organisation,
        name="digits",
        data_set=bare_data_set(cast),
        metric="accuracy",
        created_by=cast.engineer,
        created_at=timezone.now(),
    )
    return {"pk": task.pk}


def a_measurement(cast: Cast) -> dict[str, Any]:
    document = written_by_hand(uuid4().hex * 2, measured_at=f"{timezone.now() - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}")
    row = measurement_import(
        organisation=cast.organisation, data=file_of(document), actor=cast.engineer, now=timezone.now()
    )
    return {"pk": row.pk}


def a_price_list(cast: Cast) -> dict[str, Any]:
    data = f"machine,price,currency,unit,region\n{uuid4().hex},1,EUR,hour,north\n".encode()
    now = timezone.now()
    row = pricelist_import(
        organisation=cast.organisation,
        data=data,
        kind="own",
        source="A cloud",
        as_of=now.date(),
        actor=cast.engineer,
        now=now,
    )
    return {"pk": row.pk}


def a_machine(cast: Cast) -> dict[str, Any]:
    one = Decimal(1)
    facts = MachineFacts(uuid4().hex, "EUR", one, 36, one, one, one, one)
    return {
        "pk": machine_add(organisation=cast.organisation, machine=facts, actor=cast.engineer, now=timezone.now()).pk
    }


BUILD: dict[str, Any] = {"roles": ENGINEERING, "scope": Scope.BUILD}
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
    page("/plans/<uuid:pk>/places", make=a_plan),
    page("/plans/<uuid:pk>/places.<str:kind>", make=lambda cast: {**a_plan(cast), "kind": "csv"}),
    page("/places"),
    page("/places/sample.csv"),
    page("/places/measurements", "POST", roles=ENGINEERING),
    page("/places/measurements/<uuid:pk>", make=a_measurement),
    page("/places/measurements/<uuid:pk>", "POST", roles=ENGINEERING, make=a_measurement),
    page("/places/measurements/<uuid:pk>/remove", "POST", roles=ENGINEERING, make=a_measurement),
    page("/places/price-lists", "POST", roles=ENGINEERING),
    page("/places/price-lists/<uuid:pk>", make=a_price_list),
    page("/places/price-lists/<uuid:pk>", "POST", roles=ENGINEERING, make=a_price_list),
    page("/places/price-lists/<uuid:pk>/remove", "POST", roles=ENGINEERING, make=a_price_list),
    page("/places/machines", "POST", roles=ENGINEERING),
    page("/places/machines/<uuid:pk>/remove", "POST", roles=ENGINEERING, make=a_machine),
    operation("POST /places/measurements", body={}, **BUILD),
    operation("GET /places/measurements"),
    operation("GET /places/measurements/{uuid:pk}", make=a_measurement),
    operation("POST /places/measurements/{uuid:pk}", make=a_measurement, body={}, **BUILD),
    operation("DELETE /places/measurements/{uuid:pk}", make=a_measurement, **BUILD),
    operation("POST /places/price-lists", **BUILD),
    operation("GET /places/price-lists"),
    operation("GET /places/price-lists/{uuid:pk}", make=a_price_list),
    operation(
        "POST /places/price-lists/{uuid:pk}", make=a_price_list, body={"expires_at": "2026-01-01T00:00:00Z"}, **BUILD
    ),
    operation("DELETE /places/price-lists/{uuid:pk}", make=a_price_list, **BUILD),
    operation("POST /places/machines", body={}, **BUILD),
    operation("GET /places/machines"),
    operation("DELETE /places/machines/{uuid:pk}", make=a_machine, **BUILD),
    operation("GET /plans/{uuid:pk}/places", make=a_plan),
]
