"""The pages of plans: the list, the form and the result."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.planner import selectors, services, variants
from apps.planner.forms import PlanForm
from apps.planner.models import Plan, Task
from apps.planner.plan_rows import rows_of
from apps.planner.plan_summary import summary_lines
from apps.planner.plan_text import change_rows, comparison_sentences, requirement_rows, score_format_of_plan
from apps.registry import selectors as registry
from apps.registry.models import ModelVersion

PAGE_ROWS = 30


@require_GET
def plan_list(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request)
    page = page_of(
        request, selectors.plans_list(organisation=organisation), ordering=("-created_at", "-id"), size=PAGE_ROWS
    )
    models = registry.models_list(organisation=organisation)
    return render(request, "planner/plan_list.html", {"page": page, "models": models})


def _version(request: HttpRequest) -> ModelVersion:
    pk = request.GET.get("version") or request.POST.get("version")
    if not pk:
        raise Problem(422, "No model", "Choose a model on the Plans page first.", kind="model-missing")
    return org_object_get(request, registry.versions_present(), roles=ENGINEERING, pk=pk)


class PlanEntry(NamedTuple):
    """The form of requirements, and the plan that was made or the reason why no plan was made."""

    form: PlanForm
    plan: Plan | None = None
    refusal: Problem | None = None

    @property
    def status(self) -> int:
        return 422 if self.form.is_bound and (self.refusal is not None or self.form.errors) else 200


def plan_entry(request: HttpRequest, subject: ModelVersion | Task) -> PlanEntry:
    """Read the form of requirements for a model version or a task. A valid POST makes a plan."""
    now, sent = timezone.now(), request.POST if request.method == "POST" else None
    try:
        form = PlanForm(subject, selectors.plan_classes(now=now), sent)
    except Problem as refusal:  # no price book is in force
        return PlanEntry(PlanForm(subject, (), sent), refusal=refusal)
    if not form.is_valid():
        return PlanEntry(form)
    try:
        plan = services.plan_create(
            subject=subject,
            requirements=form.requirements(),
            klass=form.cleaned_data["klass"],
            dims=form.chosen_dims(),
            until=form.cleaned_data["until"],
            actor=principal_get(request).user,
            now=now,
        )
    except Problem as refusal:
        form.refuse(refusal)
        return PlanEntry(form, refusal=refusal)
    return PlanEntry(form, plan)


@require_http_methods(["GET", "POST"])
def plan_create(request: HttpRequest) -> HttpResponse:
    """Show the form of requirements for the version in `?version=`. A valid POST makes a plan."""
    organisation_get(request, roles=ENGINEERING)
    if not (request.GET.get("version") or request.POST.get("version")):
        return redirect("planner:plan_list")
    version = _version(request)
    entry = plan_entry(request, version)
    if entry.plan is not None:
        return redirect("planner:plan_detail", pk=entry.plan.pk)
    versions, evaluations = variants.alternatives(version)
    context = {
        "version": version,
        "form": entry.form,
        "refusal": entry.refusal,
        "alternatives": [(one, evaluations.get(one.pk)) for one in versions],
        "missing": [(one, target) for one, target, _ in variants.missing_programs(version=version, dims=None)],
        "compiling": variants.compiles_open(versions).count(),
        "api_body": {"version_id": str(version.pk), "items": 1_000_000, "accuracy": "0.97"},
    }
    return render(request, "planner/plan_create.html", context, status=entry.status)


@require_POST
def alternatives_compile(request: HttpRequest) -> HttpResponse:
    organisation_get(request, roles=ENGINEERING)
    version = _version(request)
    now = timezone.now()
    jobs = services.alternatives_compile(version=version, dims=None, actor=principal_get(request).user, now=now)
    messages.success(request, f"Compiles started: {len(jobs)}." if jobs else "These compiles are already in progress.")
    return redirect("compilation:job_list")


@require_GET
def plan_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    plan = org_object_get(request, Plan.objects.select_related("model_version__model", "organisation", "task"), pk=pk)
    currency, rows = plan.basis["currency"], rows_of(plan)
    context = {
        "plan": plan,
        "currency": currency,
        "best": rows.shown[0] if plan.chosen else None,
        "rows": rows,
        "measure": score_format_of_plan(plan),
        "summary": summary_lines(plan),
        "compared": comparison_sentences(plan),
        "wanted": requirement_rows(plan, currency),
        "changes": change_rows(plan, currency),
        "points": scatter(plan, rows.drawn),
    }
    return render(request, "planner/plan_detail.html", context)


def scatter(plan: Plan, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the points of the chart. Floats are only for drawing."""
    points = [
        {
            "name": f"{row['title']} on {row['pool']}",
            "x": float(Fraction(row["latency"]) * 10**6),
            "y": float(Fraction(row["price_per_thousand"])),
            "state": row["state"],
            "note": " ".join(row["reasons"]),
            "labelled": row["state"] == "chosen"
            or (row["on_frontier"] and row["kind"] == "single"),  # long names hide points
            "row": row["anchor"],
        }
        for row in rows
    ]
    axes = {"x": {"name": "Latency of one item", "unit": "µs"}}
    return {**axes, "y": {"name": "Price per thousand items", "unit": plan.basis["currency"]}, "points": points}


@require_GET
def plan_json(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Download the whole plan as JSON."""
    plan = org_object_get(request, Plan, pk=pk)
    document = {
        "requirements": plan.requirements,
        "candidates": plan.candidates,
        "chosen": plan.chosen,
        "changes": plan.changes,
        "basis": plan.basis,
    }
    response = HttpResponse(json.dumps(document, indent=1), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="plan-{plan.pk}.json"'
    return response
