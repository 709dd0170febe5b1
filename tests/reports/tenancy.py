"""Who may open the administrator's pages."""

from typing import Any

from django.utils import timezone

from apps.accounts.roles import Scope
from apps.pricing.drafts import draft_create
from apps.reports.capacity_plans.services import capacity_plan_request
from apps.reports.changes import Change
from apps.reports.controller.services import proposals_keep
from apps.reports.forecasts import forecast_request
from apps.reports.models import CapacityPlan, ReconciliationRun
from apps.reports.reconciling import reconciliation_request, reconciliation_run
from apps.reports.rerating import rerating_request
from apps.reports.whatif import what_if_request
from tests.cast import Cast
from tests.sales.market import open_market
from tests.tenancy import operation, page


def _run(cast: Cast) -> ReconciliationRun:
    now = timezone.now()
    return reconciliation_run(run_id=reconciliation_request(asked_by=cast.admin, now=now).id, now=now)


def _pk(cast: Cast) -> dict[str, Any]:
    return {"pk": _run(cast).pk}


def _both(cast: Cast) -> dict[str, Any]:
    return {"pk": _run(cast).pk, "organisation": cast.organisation.pk}


def _rerating(cast: Cast) -> dict[str, Any]:
    now = timezone.now()
    return {"pk": rerating_request(book=open_market().book, month=now, asked_by=cast.admin, now=now).pk}


def _capacity_plan(cast: Cast) -> dict[str, Any]:
    return {"pk": capacity_plan_request(asked_by=cast.admin, now=timezone.now()).pk}


def _what_if(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"pk": what_if_request(change=Change(), trace=None, asked_by=cast.admin, now=timezone.now()).pk}


def _forecast(cast: Cast) -> dict[str, Any]:
    forecast_request(asked_by=cast.admin, now=timezone.now())
    return {}


def _device(cast: Cast) -> dict[str, Any]:
    return {"pk": open_market().lpu.devices.earliest("name").pk}


def _sheet(cast: Cast) -> dict[str, Any]:
    return {"slug": "load"}


def _applied(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"pk": what_if_request(change=Change({"lpu-a": 1}), trace=None, asked_by=cast.admin, now=timezone.now()).pk}


def _proposal(cast: Cast) -> dict[str, Any]:
    open_market()
    asked = capacity_plan_request(asked_by=cast.admin, now=timezone.now())
    asked.result = {"pools": [{"pool": "lpu-a", "proposals": [{"kind": "short", "devices": 1}]}]}
    asked.save(update_fields=["result"])
    return {"pk": asked.pk, "pool": "lpu-a", "kind": "short"}


def _ruled(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"slug": "lpu-a"}


def _kept(cast: Cast) -> dict[str, Any]:
    plan = CapacityPlan.objects.get(pk=_proposal(cast)["pk"])
    return {"pk": proposals_keep(plan=plan, now=timezone.now())[0].pk}


def _draft(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"pk": draft_create(actor=cast.admin, now=timezone.now()).pk}


def _draft_section(cast: Cast) -> dict[str, Any]:
    return {**_draft(cast), "section": "prices"}


ROUTES = [
    page("/administration", admin=True),
    page("/capacity/controller", admin=True),
    page("/capacity/controller/pools/<slug:slug>", "GET", "POST", admin=True, make=_ruled),
    page("/capacity/controller/<uuid:pk>", "GET", "POST", admin=True, make=_kept),
    page("/capacity/controller/<uuid:pk>/dismiss", "POST", admin=True, make=_kept),
    operation("GET /capacity/controller/proposals", scope=Scope.ADMIN),
    page("/capacity/plan/<uuid:pk>/<slug:pool>/<slug:kind>", admin=True, make=_proposal),
    page("/capacity/what-if/<uuid:pk>/fleet", admin=True, make=_applied),
    operation("GET /capacity/what-if/{uuid:pk}/fleet", scope=Scope.ADMIN, make=_applied),
    operation("GET /capacity/plans/{uuid:pk}/fleet/{pool}/{kind}", scope=Scope.ADMIN, make=_proposal),
    page("/fleet/devices/<uuid:pk>/failure", "GET", "POST", admin=True, make=_device),
    operation("POST /fleet/devices/{uuid:pk}/failure", scope=Scope.ADMIN, make=_device),
    page("/reports", admin=True),
    page("/reports/<slug:slug>", admin=True, make=_sheet),
    operation("GET /reports", scope=Scope.ADMIN),
    operation("GET /reports/{slug}", scope=Scope.ADMIN, make=_sheet),
    page("/capacity", admin=True),
    page("/capacity/plan", "GET", "POST", admin=True),
    page("/capacity/plan/<uuid:pk>", admin=True, make=_capacity_plan),
    page("/capacity/plan/<uuid:pk>/cancel", "POST", admin=True, make=_capacity_plan),
    operation("POST /capacity/plans", scope=Scope.ADMIN),
    operation("GET /capacity/plans", scope=Scope.ADMIN),
    operation("GET /capacity/plans/{uuid:pk}", scope=Scope.ADMIN, make=_capacity_plan),
    operation("POST /capacity/plans/{uuid:pk}/cancel", scope=Scope.ADMIN, make=_capacity_plan),
    page("/capacity/forecast", "GET", "POST", admin=True),
    page("/capacity/forecast.csv", admin=True),
    page("/capacity/traces", "POST", admin=True),
    page("/capacity/what-if", "GET", "POST", admin=True),
    page("/capacity/what-if/<uuid:pk>", admin=True, make=_what_if),
    page("/capacity/what-if/<uuid:pk>/cancel", "POST", admin=True, make=_what_if),
    operation("GET /capacity/forecast", scope=Scope.ADMIN, make=_forecast),
    operation("POST /capacity/forecast", scope=Scope.ADMIN),
    operation("GET /capacity/traces", scope=Scope.ADMIN),
    operation("POST /capacity/traces", scope=Scope.ADMIN),
    operation("POST /capacity/what-if", scope=Scope.ADMIN),
    operation("GET /capacity/what-if/{uuid:pk}", scope=Scope.ADMIN, make=_what_if),
    operation("POST /capacity/what-if/{uuid:pk}/cancel", scope=Scope.ADMIN, make=_what_if),
    page("/revenue", admin=True),
    page("/revenue/ratings", "POST", admin=True),
    page("/revenue/ratings/<uuid:pk>", admin=True, make=_rerating),
    page("/costs", "GET", "POST", admin=True),
    operation("GET /cost-rates", scope=Scope.ADMIN),
    operation("POST /cost-rates", scope=Scope.ADMIN),
    operation("POST /revenue/ratings", scope=Scope.ADMIN),
    operation("GET /revenue/ratings/{uuid:pk}", scope=Scope.ADMIN, make=_rerating),
    page("/prices/new", "GET", "POST", admin=True),
    page("/prices/drafts", "GET", "POST", admin=True),
    page("/prices/drafts/<uuid:pk>/review", "GET", "POST", admin=True, make=_draft),
    page("/prices/drafts/<uuid:pk>/discard", "POST", admin=True, make=_draft),
    page("/prices/drafts/<uuid:pk>/price-book.json", admin=True, make=_draft),
    page("/prices/drafts/<uuid:pk>/<slug:section>", "GET", "POST", admin=True, make=_draft_section),
    operation("GET /revenue", scope=Scope.ADMIN),
    operation("GET /capacity", scope=Scope.ADMIN),
    page("/reconciliations", "GET", "POST", admin=True),
    page("/reconciliations/<uuid:pk>", admin=True, make=_pk),
    page("/reconciliations/<uuid:pk>/<uuid:organisation>", admin=True, make=_both),
    operation("GET /reconciliations", scope=Scope.ADMIN),
    operation("POST /reconciliations", scope=Scope.ADMIN),
    operation("GET /reconciliations/{uuid:pk}", scope=Scope.ADMIN, make=_pk),
    operation("GET /reconciliations/{uuid:pk}/organisations", scope=Scope.ADMIN, make=_pk),
]
