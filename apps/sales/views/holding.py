"""The hold section of a plan's page."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import org_object_get, principal_get
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.planner.models import Plan
from apps.sales import services
from apps.sales.holds import hold_context


@require_http_methods(["GET", "POST"])
def plan_hold(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the hold of a plan. POST holds a candidate; the default is the chosen candidate."""
    now = timezone.now()
    if request.method == "GET":
        plan = org_object_get(request, Plan, pk=pk)
        return render(request, "sales/_plan_hold.html", hold_context(plan, now=now))
    plan = org_object_get(request, Plan, roles=ENGINEERING, pk=pk)
    try:
        hold = services.plan_hold(
            plan_id=plan.pk,
            organisation=plan.organisation,
            actor=principal_get(request).user,
            now=now,
            candidate=_number(request.POST.get("candidate", "")),
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, f"Held on {hold.quote.pool.name}. Accept the quote before the hold ends.")
    return redirect("planner:plan_detail", pk=plan.pk)


@require_POST
def plan_hold_release(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Release the hold of a plan."""
    plan = org_object_get(request, Plan, roles=ENGINEERING, pk=pk)
    released = services.plan_hold_release(
        plan_id=plan.pk, organisation=plan.organisation, actor=principal_get(request).user, now=timezone.now()
    )
    messages.success(request, "Released. The device time is free again." if released else "Nothing was held.")
    return redirect("planner:plan_detail", pk=plan.pk)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
