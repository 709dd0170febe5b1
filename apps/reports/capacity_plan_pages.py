"""Request, show and download capacity plans, on pages and through the API."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from ninja import Router, Schema

from apps import figures
from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.auth import requires
from apps.accounts.broker import task_send_on_commit
from apps.accounts.idempotency import idempotent
from apps.accounts.models import User
from apps.accounts.paging import Cursor, page_of, paginate
from apps.accounts.roles import Scope
from apps.reports.capacity_plans import services
from apps.reports.models import CapacityPlan
from apps.reports.tasks import capacity_plan

router = Router(tags=["capacity"])
PER_PAGE = 20
ORDER = ("-asked_at", "-id")
NEEDED = RawSQL("(SELECT sum((one->>'needed')::int) FROM jsonb_array_elements(result->'pools') AS one)", ())
METHODS = {
    "configuration": "Linear program over patterns",
    "dot-product": "Dot-product heuristic; bound from total demand",
}


class CapacityPlanOut(Schema):
    """`percent` is the progress. `result` is null unless the plan is finished. Fractions are text such as "3/4". Money
    is in `currency`.
    """

    id: UUID
    asked_at: datetime
    percent: int
    is_cancelled: bool
    finished_at: datetime | None
    inputs_digest: str
    result: dict[str, Any] | None


@router.post(
    "/capacity/plans",
    auth=requires(Scope.ADMIN),
    response={202: CapacityPlanOut},
    operation_id="capacity_plan_create",
    summary="Make a capacity plan",
)
@idempotent
def capacity_plan_create(request: HttpRequest) -> tuple[int, CapacityPlan]:
    """Returns at once; a worker makes the plan. The plan assumes that programs can share devices."""
    return 202, capacity_plan_begin(principal_get(request).user)


@router.get(
    "/capacity/plans",
    auth=requires(Scope.ADMIN),
    response=list[CapacityPlanOut],
    operation_id="capacity_plan_list",
    summary="Capacity plans, newest first",
)
@paginate(Cursor, ordering=ORDER)
def capacity_plan_all(request: HttpRequest) -> QuerySet[CapacityPlan]:
    return CapacityPlan.objects.all()


@router.get(
    "/capacity/plans/{uuid:pk}",
    auth=requires(Scope.ADMIN),
    response=CapacityPlanOut,
    operation_id="capacity_plan_get",
    summary="One capacity plan",
)
def capacity_plan_get(request: HttpRequest, pk: UUID) -> CapacityPlan:
    return get_object_or_404(CapacityPlan, pk=pk)


@router.post(
    "/capacity/plans/{uuid:pk}/cancel",
    auth=requires(Scope.ADMIN),
    response=CapacityPlanOut,
    operation_id="capacity_plan_cancel",
    summary="Cancel a capacity plan",
)
@idempotent
def capacity_plan_stop(request: HttpRequest, pk: UUID) -> CapacityPlan:
    get_object_or_404(CapacityPlan, pk=pk)
    return services.capacity_plan_cancel(pk=pk, actor=principal_get(request).user, now=timezone.now())


@require_http_methods(["GET", "POST"])
@platform_admin_required
def plan_list(request: HttpRequest) -> HttpResponse:
    """Show the newest plan and a list of all plans; a POST starts a new plan."""
    if request.method == "POST":
        return redirect("reports:capacity_plan", pk=capacity_plan_begin(principal_get(request).user).pk)
    plans = CapacityPlan.objects.select_related("asked_by").defer("result").annotate(needed=NEEDED)
    page = page_of(request, plans, ordering=ORDER, size=PER_PAGE)
    newest = CapacityPlan.objects.order_by(*ORDER).first()
    context = {"page": page, "api_path": "/api/v1/capacity/plans", **(shown(newest) if newest else {})}
    return render(request, "reports/capacity_plan_list.html", context)


@require_GET
@platform_admin_required
def plan_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show one plan. `?format=csv` or `?format=json` returns a file."""
    plan = get_object_or_404(CapacityPlan, pk=pk)
    wanted = request.GET.get("format")
    if wanted in ("csv", "json") and plan.result is not None:
        return _csv(plan) if wanted == "csv" else _json(plan)
    name = "reports/_capacity_plan.html" if request.headers.get("HX-Request") else "reports/capacity_plan.html"
    return render(request, name, {**shown(plan), "api_path": f"/api/v1/capacity/plans/{pk}"})


@require_POST
@platform_admin_required
def plan_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    get_object_or_404(CapacityPlan, pk=pk)
    services.capacity_plan_cancel(pk=pk, actor=principal_get(request).user, now=timezone.now())
    messages.success(request, "The plan was cancelled.")
    return redirect("reports:capacity_plan_list")


def capacity_plan_begin(user: User | None) -> CapacityPlan:
    """Create a plan and queue it for a worker."""
    with transaction.atomic():
        plan = services.capacity_plan_request(asked_by=user, now=timezone.now())
        task_send_on_commit(capacity_plan.name, queue="books", pk=str(plan.pk))
    return plan


def shown(plan: CapacityPlan) -> dict[str, Any]:
    """Return the template context of a plan."""
    result = plan.result or {"pools": [], "left_out": [], "currency": ""}
    pools = [_pool(pool) for pool in result["pools"]]
    return {
        "plan": plan,
        "pools": pools,
        "left_out": result["left_out"],
        "currency": result["currency"],
        "any_proposal": any(pool["proposals"] for pool in pools),
        "totals": {name: sum(pool[name] for pool in pools) for name in ("owned", "needed", "bound")},
    }


def _pool(pool: dict[str, Any]) -> dict[str, Any]:
    gap = Fraction(pool["needed"], pool["bound"]) - 1 if pool["bound"] else Fraction(0)
    return {
        **pool,
        "gap": gap,
        "change": f"{pool['needed'] - pool['owned']:+d}",
        "method_name": METHODS[pool["method"]],
        "load": [_load(row) for row in pool["load"]],
        "devices": [{**row, "load": [Fraction(one) for one in row["load"]]} for row in pool["devices"]],
        "power": [_setting(row) for row in pool["power"]],
        "proposals": [proposal_shown(row) for row in pool["proposals"]],
    }


def _load(row: dict[str, Any]) -> dict[str, Any]:
    name = row["dimension"]
    suffix = "" if name == "resident" else "/s"
    written = figures.cycles_format if name == "duty" else figures.bytes_format
    return {
        "name": {"duty": "Duty", "link in": "Link in", "link out": "Link out", "resident": "Resident memory"}[name],
        "asked_text": f"{written(row['asked'])}{suffix}",
        "device_text": f"{written(row['device'])}{suffix}",
        "share": _fraction(row["share"]),
    }


def _setting(row: dict[str, Any]) -> dict[str, Any]:
    exact = _fractions(row)
    return {
        **exact,
        "factor": figures.fixed(exact["latency_factor"], 2),
        "watts_text": watts(exact["watts"]),
        "peak_text": watts(exact["peak_watts"]),
    }


def proposal_shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a proposal in the form that the template shows."""
    exact = _fractions(row)
    saved = exact.get("watts_saved", exact.get("peak_watts_saved"))
    factor = exact.get("latency_factor")
    return {**exact, "watts": watts(saved or Fraction(0)), "factor": figures.fixed(factor, 2) if factor else ""}


def watts(value: Fraction) -> str:
    """Format a power in watts with one decimal place."""
    return f"{figures.fixed(value, 1)}{figures.NARROW_SPACE}W"


EXACT = (
    "share",
    "latency_factor",
    "watts",
    "static_watts",
    "peak_watts",
    "watts_saved",
    "saved_per_hour",
    "moved_seconds",
    "moved_cost",
    "payback_seconds",
    "peak_watts_saved",
)


def _fractions(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _fraction(value) if name in EXACT else value for name, value in row.items()}


def _fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def _csv(plan: CapacityPlan) -> HttpResponse:
    response = HttpResponse(content_type="text/csv")
    response["Content-Disposition"] = f'attachment; filename="capacity-plan-{plan.pk}.csv"'
    sheet = csv.writer(response)
    columns = (
        "share",
        "needed",
        "bound",
        "first_fit_decreasing",
        "method",
        "fits",
        "latency_factor",
        "watts",
        "peak_watts",
    )
    sheet.writerow(["pool", "owned", *columns])
    for pool in (plan.result or {})["pools"]:
        for row in pool["power"]:
            values = [f"{float(Fraction(row[name])):.6f}" if name in EXACT else row[name] for name in columns]
            sheet.writerow([pool["pool"], pool["owned"], *values])
    return response


def _json(plan: CapacityPlan) -> HttpResponse:
    document = {"asked_at": plan.asked_at.isoformat(), "inputs_digest": plan.inputs_digest, **(plan.result or {})}
    response = HttpResponse(json.dumps(document, indent=1), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="capacity-plan-{plan.pk}.json"'
    return response
