"""The pages of model versions and compile jobs. Each view authorises, makes one service call, and answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import ANY_ROLE, ENGINEERING
from apps.compilation import selectors, services
from apps.compilation.calibration import FILE_BYTES_MAX
from apps.compilation.dimensions import formula_simplified, sizes_suggested
from apps.compilation.forms import CompileForm
from apps.compilation.models import CompileJob, CompileRequest, OwnProcessor, Program
from apps.compilation.progress import request_progress
from apps.fleet.views import described
from apps.registry import selectors as registry
from apps.registry.models import ModelVersion
from compiler import targets
from compiler.targets.catalogue import LARGEST

JOB_PAGE = "compilation:job_detail"
REQUEST_PAGE = "compilation:request_detail"
PAGE_ROWS = 30


@require_http_methods(["GET", "POST"])
def version_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A version with its programs and compiles; POST asks for compiles."""
    roles = ENGINEERING if request.method == "POST" else ANY_ROLE
    version = org_object_get(request, registry.versions_present(), roles=roles, pk=pk)
    posted = request.method == "POST"
    form = CompileForm(version, request.POST if posted else None, request.FILES if posted else None)
    refusal: Problem | None = None
    if request.method == "POST" and form.is_valid():
        try:
            return redirect(REQUEST_PAGE, pk=_request_create(request, version, form.cleaned_data).pk)
        except Problem as problem:
            refusal = problem
    if "already" in request.GET:
        messages.info(
            request, f"You already have this file: it was added on {version.created_at:%d %B %Y} as {version}."
        )
    refused = refusal is not None or bool(form.errors and form.is_bound)
    context = {**_version_context(version), "form": form, "refusal": refusal}
    return render(request, "compilation/version_detail.html", context, status=422 if refused else 200)


def _request_create(request: HttpRequest, version: ModelVersion, chosen: dict[str, Any]) -> CompileRequest:
    examples = chosen["calibration"].read(FILE_BYTES_MAX + 1) if chosen["calibration"] else None
    return services.request_create(
        version=version,
        targets=chosen["targets"],
        precisions=chosen["precision"],
        dims=chosen["dims"],
        calibration=examples,
        actor=principal_get(request).user,
        now=timezone.now(),
        mail=chosen["mail"],
    )


@require_POST
def version_compile(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Compile a new version with suggested sizes, right after its upload."""
    version = org_object_get(request, registry.versions_present(), roles=ENGINEERING, pk=pk)
    suggested = CompileForm(version)
    form = CompileForm(version, suggested.initial)
    if selectors.jobs_last(version) or not form.is_valid():
        return redirect("compilation:version_detail", pk=pk)
    return redirect(REQUEST_PAGE, pk=_request_create(request, version, form.cleaned_data).pk)


@require_GET
def request_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The progress of compiles that were requested together.

    htmx polls the partial every second while a compile runs. When all have ended with a single program, the page
    moves on to its report.
    """
    asked = org_object_get(request, CompileRequest.objects.select_related("model_version__model"), pk=pk)
    progress = request_progress(asked, now=timezone.now())
    if request.headers.get("HX-Request") != "true":
        return render(request, "compilation/request_detail.html", {"asked": asked, "progress": progress})
    answer = render(request, "compilation/_request.html", {"asked": asked, "progress": progress})
    if progress.is_finished and len(progress.programs) == 1 and not progress.failed:
        answer["HX-Redirect"] = reverse("program", args=progress.programs)
    return answer


def _version_context(version: ModelVersion) -> dict[str, Any]:
    now = timezone.now()
    programs = selectors.programs_of_version(version)
    return {
        "version": version,
        "values": [*_values(version.inputs, "input"), *_values(version.outputs, "output")],
        "evaluation": registry.evaluation_of(version),
        "others": registry.versions_present().filter(model=version.model).exclude(pk=version.pk).order_by("-number"),
        "programs": [(program, selectors.price_preview(program, now=now)) for program in programs],
        "jobs": selectors.jobs_of_version(version),
        "api_body": {
            "version_id": str(version.pk),
            "target": "lpu",
            "dims": sizes_suggested(version.inputs, [row["name"] for row in version.symbolic_dims]),
        },
    }


def _values(values: list[dict[str, Any]], direction: str) -> list[dict[str, Any]]:
    """Inputs or outputs for the page, with formulas of variable dimensions in their simplest form."""
    return [
        {**value, "direction": direction, "sizes": [formula_simplified(str(size)) for size in value["shape"]]}
        for value in values
    ]


@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    rows = selectors.jobs_list(organisation=organisation_get(request))
    page = page_of(request, rows, ordering=("-created_at", "-id"), size=PAGE_ROWS)
    return render(request, "compilation/job_list.html", {"page": page})


@require_GET
def job_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The stages with their times; htmx polls the partial every second while the job runs."""
    job = org_object_get(request, CompileJob.objects.select_related("model_version__model", "compares_with"), pk=pk)
    context = {"job": job, "programs": selectors.programs_of_job(job), "buckets": job.stages}
    part = request.headers.get("HX-Request") == "true"
    return render(request, "compilation/_progress.html" if part else "compilation/job_detail.html", context)


@require_POST
def job_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = org_object_get(request, CompileJob, roles=ENGINEERING, pk=pk)
    services.job_cancel(job=job, actor=principal_get(request).user, now=timezone.now())
    return redirect(JOB_PAGE, pk=pk)


@require_POST
def job_retry(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = org_object_get(request, CompileJob, roles=ENGINEERING, pk=pk)
    services.job_retry(job=job, actor=principal_get(request).user, now=timezone.now())
    return redirect(JOB_PAGE, pk=pk)


@require_http_methods(["GET", "POST"])
def processor_list(request: HttpRequest) -> HttpResponse:
    """The organisation's own processors; POST uploads a file."""
    posted = request.method == "POST"
    organisation = organisation_get(request, roles=ENGINEERING if posted else ANY_ROLE)
    refusal: Problem | None = None
    file = request.FILES.get("file")
    if posted:
        data = file.read(LARGEST + 1) if file else b""
        try:
            actor, now = principal_get(request).user, timezone.now()
            row = services.processor_add(organisation=organisation, data=data, actor=actor, now=now)
        except Problem as problem:
            refusal = problem
        else:
            return redirect("compilation:processor_detail", pk=row.pk)
    context = {"processors": selectors.processors_own(organisation), "refusal": refusal}
    return render(request, "compilation/processor_list.html", context, status=refusal.status if refusal else 200)


@require_GET
def processor_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A custom processor, described like the others."""
    row = org_object_get(request, OwnProcessor, pk=pk)
    return render(request, "fleet/target_detail.html", {**described(targets.parse(row.text)), "own": row})


@require_POST
def processor_remove(request: HttpRequest, pk: UUID) -> HttpResponse:
    row = org_object_get(request, OwnProcessor, roles=ENGINEERING, pk=pk)
    services.processor_remove(processor=row, actor=principal_get(request).user, now=timezone.now())
    return redirect("compilation:processor_list")


@require_POST
def compare(request: HttpRequest, pk: UUID) -> HttpResponse:
    program = org_object_get(request, Program, roles=ENGINEERING, pk=pk)
    job = services.job_compare(program=program, actor=principal_get(request).user, now=timezone.now())
    return redirect(JOB_PAGE, pk=job.pk)
