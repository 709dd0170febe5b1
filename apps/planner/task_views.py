"""The pages of tasks: the list, the form, and a task with its candidates."""

from __future__ import annotations

from typing import BinaryIO, cast
from uuid import UUID

from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.planner import candidates, task_services
from apps.planner.forms import TaskForm
from apps.planner.models import Task
from apps.planner.score_format import score_format_of
from apps.planner.views import plan_entry
from apps.registry import selectors as registry
from apps.registry import services as registry_services
from apps.registry.api import data_set_response
from apps.registry.models import DataSet
from apps.registry.selectors import versions_present

PAGE_ROWS = 30


@require_GET
def task_list(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request)
    rows = candidates.tasks_of(organisation)
    page = page_of(request, rows, ordering=("-created_at", "-id"), size=PAGE_ROWS)
    context = {"page": page, "data_sets": registry.data_sets(organisation=organisation)}
    return render(request, "planner/task_list.html", context)


def _task(request: HttpRequest, pk: UUID, *, engineering: bool = False) -> Task:
    tasks = Task.objects.filter(deleted_at=None).select_related("data_set", "organisation")
    return org_object_get(request, tasks, pk=pk, **({"roles": ENGINEERING} if engineering else {}))


@require_http_methods(["GET", "POST"])
def task_create(request: HttpRequest) -> HttpResponse:
    """Create a task with a stored or an uploaded data set."""
    organisation = organisation_get(request, roles=ENGINEERING)
    form = _form(request, organisation)
    refusal: Problem | None = None
    if request.method == "POST" and form.is_valid():
        try:
            return redirect("planner:task_detail", pk=_create(request, organisation, form).pk)
        except Problem as problem:
            refusal = problem
    faults = [error["message"] for error in refusal.errors if "message" in error] if refusal else []
    context = {
        "form": form,
        "refusal": refusal,
        "refusal_list": faults,
        "has_models": form.has_models,
        "refusal_text": "" if faults or refusal is None else refusal.detail,
    }
    refused = refusal is not None or bool(form.is_bound and form.errors)
    return render(request, "planner/task_create.html", context, status=422 if refused else 200)


def _form(request: HttpRequest, organisation: Organisation) -> TaskForm:
    sets = [(str(one.pk), f"{one.name} ({one.items:,} items)") for one in registry.data_sets(organisation=organisation)]
    versions = versions_present().filter(organisation=organisation).order_by("model__name", "number")
    initial = {"data_set": request.GET.get("data_set", "")}
    return TaskForm(
        request.POST or None,
        request.FILES or None,
        data_sets=sets,
        versions=[(str(one.pk), str(one)) for one in versions],
        initial=initial,
    )


def _create(request: HttpRequest, organisation: Organisation, form: TaskForm) -> Task:
    stated, actor, now = form.cleaned_data, principal_get(request).user, timezone.now()
    if stated["file"]:
        file = stated["file"]
        data_set, _ = registry_services.dataset_add(
            organisation=organisation,
            file=cast("BinaryIO", file.file),
            size=file.size or 0,
            name=file.name or "",
            seed=stated["seed"],
            choose_percent=stated["choose_percent"],
            actor=actor,
            now=now,
        )
    else:
        data_set = org_object_get(
            request, DataSet.objects.filter(deleted_at=None), roles=ENGINEERING, pk=stated["data_set"]
        )
    return task_services.task_create(
        organisation=organisation,
        name=stated["name"],
        data_set=data_set,
        metric=form.chosen_metric(),
        output=stated["output"],
        versions=[UUID(one) for one in stated["versions"]],
        actor=actor,
        now=now,
    )


@require_POST
def task_sample(request: HttpRequest) -> HttpResponse:
    """Create the sample task."""
    organisation = organisation_get(request, roles=ENGINEERING)
    task = task_services.task_sample(organisation=organisation, actor=principal_get(request).user, now=timezone.now())
    return redirect("planner:task_detail", pk=task.pk)


@require_GET
def task_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a task. An htmx request gets only the part of the page that changes."""
    task, now = _task(request, pk), timezone.now()
    rows = candidates.rows_of(task)
    try:
        offer = task_services.evaluations_priced(task, rows=rows, now=now)
    except Problem:  # no price book is in force
        offer = None
    context = {
        "task": task,
        "rows": rows,
        "offer": offer,
        "missing": candidates.missing_of(task),
        "now": now,
        "compiling": candidates.compiles_open(task),
        "metric": candidates.metric_title(task),
        "measure": score_format_of(candidates.metric_title(task)),
        "is_open": any(row.is_open for row in rows),
        "plans": task.plans.order_by("-created_at")[:5],
        "evaluated": sum(row.evaluation is not None for row in rows),
    }
    template = "planner/_task.html" if request.headers.get("HX-Request") else "planner/task_detail.html"
    return render(request, template, context)


@require_POST
def task_compile(request: HttpRequest, pk: UUID) -> HttpResponse:
    task = _task(request, pk, engineering=True)
    try:
        jobs = task_services.programs_compile(task=task, actor=principal_get(request).user, now=timezone.now())
        left = sum(one.failed is None for one in candidates.missing_of(task))
        later = f" The queue is full. You can start {left} more when these compiles are done." if left else ""
        messages.success(request, f"Compiles started: {len(jobs)}.{later}")
    except Problem as refused:
        messages.error(request, refused.detail)
    return redirect("planner:task_detail", pk=pk)


@require_POST
def task_evaluate(request: HttpRequest, pk: UUID) -> HttpResponse:
    task = _task(request, pk, engineering=True)
    try:
        runs = task_services.evaluations_request(task=task, actor=principal_get(request).user, now=timezone.now())
        messages.success(request, f"Evaluations queued: {len(runs)}.")
    except Problem as refused:
        messages.error(request, refused.detail)
    return redirect("planner:task_detail", pk=pk)


@require_POST
def task_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    cancelled = task_services.evaluations_cancel(task=_task(request, pk, engineering=True), now=timezone.now())
    messages.success(request, f"Evaluations cancelled: {cancelled}. To cancel a running job, open its page.")
    return redirect("planner:task_detail", pk=pk)


@require_POST
def task_delete(request: HttpRequest, pk: UUID) -> HttpResponse:
    task = _task(request, pk, engineering=True)
    task_services.task_delete(task=task, actor=principal_get(request).user, now=timezone.now())
    messages.success(request, f"Task {task.name} was deleted. The plans and evaluations of the task are kept.")
    return redirect("planner:task_list")


@require_http_methods(["GET", "POST"])
def task_plan(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the form of requirements for a task. A valid POST makes a plan."""
    task = _task(request, pk, engineering=True)
    entry = plan_entry(request, task)
    if entry.plan is not None:
        return redirect("planner:plan_detail", pk=entry.plan.pk)
    context = {
        "task": task,
        "form": entry.form,
        "refusal": entry.refusal,
        "rows": candidates.rows_of(task),
        "compiling": candidates.compiles_open(task),
        "measure": score_format_of(candidates.metric_title(task)),
    }
    return render(request, "planner/task_plan.html", context, status=entry.status)


@require_GET
def data_set_file(request: HttpRequest, pk: UUID) -> FileResponse:
    return data_set_response(org_object_get(request, DataSet.objects.filter(deleted_at=None), pk=pk))


@require_POST
def data_set_delete(request: HttpRequest, pk: UUID) -> HttpResponse:
    data_set = org_object_get(request, DataSet.objects.filter(deleted_at=None), roles=ENGINEERING, pk=pk)
    registry_services.dataset_delete(data_set=data_set, actor=principal_get(request).user, now=timezone.now())
    messages.success(request, f"{data_set.name} was deleted. Evaluations on this data set are kept.")
    return redirect("planner:task_list")
