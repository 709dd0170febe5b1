"""The pages and the API of the controller."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from ninja import Router, Schema

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.auth import requires
from apps.accounts.paging import Cursor, page_of, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.dispatch.fleet.differences import PageTexts, difference_page
from apps.fleet.models import Pool, PoolKind
from apps.reports.capacity_plan_pages import proposal_shown
from apps.reports.controller import services
from apps.reports.controller.limits import Limits
from apps.reports.controller.rules import limits_of, rule_of, rule_set, rules_now
from apps.reports.models import ControllerMode, ControllerProposal, ProposalState
from apps.reports.proposals import document_of_plan

router = Router(tags=["capacity"])
PER_PAGE = 25
ORDER = ("-made_at", "-id")


class ControllerProposalOut(Schema):
    """`facts` is the proposal as the capacity plan states it. `change` is the fleet change that applied the proposal."""

    id: UUID
    plan: UUID
    pool: str
    kind: str
    facts: dict[str, Any]
    state: str
    reason: str
    made_at: datetime
    settled_at: datetime | None
    change: int | None

    @staticmethod
    def resolve_plan(row: ControllerProposal) -> UUID:
        return row.plan_id

    @staticmethod
    def resolve_pool(row: ControllerProposal) -> str:
        return row.pool.slug

    @staticmethod
    def resolve_change(row: ControllerProposal) -> int | None:
        return row.change_id


@router.get(
    "/capacity/controller/proposals",
    auth=requires(Scope.ADMIN),
    response=list[ControllerProposalOut],
    operation_id="controller_proposal_list",
    summary="Controller proposals, newest first",
)
@paginate(Cursor, ordering=ORDER)
def proposal_all(request: HttpRequest) -> QuerySet[ControllerProposal]:
    """Lists open and closed proposals."""
    return ControllerProposal.objects.select_related("pool")


class RuleForm(forms.Form):
    """A form to set the controller's mode and limits for a pool."""

    mode = forms.ChoiceField(label="Mode", choices=ControllerMode.choices)
    power_least = forms.IntegerField(label="Lowest power", min_value=1, max_value=100)
    power_most = forms.IntegerField(label="Highest power", min_value=1, max_value=100)
    devices_a_day = forms.IntegerField(label="Devices in 24 hours", min_value=0, max_value=10**6)
    payback_hours = forms.IntegerField(label="Longest payback", min_value=0, max_value=10**6)
    from_hour = forms.IntegerField(label="From hour (UTC)", min_value=0, max_value=23)
    until_hour = forms.IntegerField(label="Until hour (UTC)", min_value=1, max_value=24)


@require_GET
@platform_admin_required
def controller(request: HttpRequest) -> HttpResponse:
    """Show the rules by pool, and the open and closed proposals."""
    rows = ControllerProposal.objects.select_related("pool", "plan", "change", "settled_by").defer("plan__result")
    opened = rows.filter(state=ProposalState.OPEN).order_by("pool__slug", "kind")
    page = page_of(request, rows.exclude(state=ProposalState.OPEN), ordering=ORDER, size=PER_PAGE)
    context = {
        "rules": rules_now(),
        "opened": [_shown(one) for one in opened],
        "page": page,
        "past": [_shown(one) for one in page],
        "api_path": "/api/v1/capacity/controller/proposals",
    }
    return render(request, "reports/controller.html", context)


def _shown(row: ControllerProposal) -> dict[str, Any]:
    is_undone = row.change is not None and row.change.undone_at is not None
    return {"row": row, "facts": proposal_shown(row.facts), "is_undone": is_undone}


@require_http_methods(["GET", "POST"])
@platform_admin_required
def controller_pool(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the controller's settings for a pool; a POST saves new settings."""
    pool = get_object_or_404(Pool, slug=slug, is_active=True, kind=PoolKind.SIMULATED)
    rule = rule_of(pool)
    form = RuleForm(request.POST or None, initial={"mode": rule.mode, **asdict(limits_of(rule))})
    if request.method == "POST" and form.is_valid():
        values = dict(form.cleaned_data)
        mode = values.pop("mode")
        try:
            rule_set(
                pool=pool, mode=mode, limits=Limits(**values), actor=principal_get(request).user, now=timezone.now()
            )
        except Problem as refusal:
            form.add_error(None, refusal.detail)
        else:
            messages.success(request, f"Saved for {slug}. The settings apply from the next run of the controller.")
            return redirect("reports:controller")
    status = 422 if request.method == "POST" else 200
    return render(request, "reports/controller_pool.html", {"pool": pool, "form": form}, status=status)


@require_http_methods(["GET", "POST"])
@platform_admin_required
def proposal(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the fleet changes of a proposal. A POST applies the proposal, regardless of the controller's limits."""
    row = get_object_or_404(ControllerProposal.objects.select_related("pool", "plan"), pk=pk)
    if request.method == "POST":
        return _applied(request, row)
    back = reverse("reports:controller")
    shown = PageTexts("Apply this proposal", back, "Controller", "", reverse("reports:controller_proposal", args=[pk]))

    def document() -> Any:
        if row.state != ProposalState.OPEN:
            detail = f"This proposal is {row.get_state_display().lower()}."
            raise Problem(409, "Proposal is closed", detail, kind="proposal-settled")
        return document_of_plan(row.plan, pool=row.pool.slug, kind=row.kind, now=timezone.now())

    return difference_page(request, document, shown)


def _applied(request: HttpRequest, row: ControllerProposal) -> HttpResponse:
    try:
        done = services.proposal_apply(
            pk=row.pk, actor=principal_get(request).user, expected=request.POST.get("digest", ""), now=timezone.now()
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
        return redirect("reports:controller")
    if done.change is None:
        messages.error(request, done.reason)
    else:
        messages.success(request, done.change.summary)
    return redirect("reports:controller")


@require_POST
@platform_admin_required
def proposal_end(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Dismiss an open proposal."""
    try:
        services.proposal_dismiss(pk=pk, actor=principal_get(request).user, now=timezone.now())
    except Problem as refusal:
        if refusal.status != 409:
            raise
        messages.error(request, refusal.detail)
    else:
        messages.success(
            request,
            (
                "The proposal was dismissed. The controller will not propose the same change again until a plan "
                "leads to a different proposal."
            ),
        )
    return redirect("reports:controller")
