"""The pages of model versions and compile jobs.

Each view authorises the caller, makes one service call, and returns the response.
"""

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
from apps.compilation.dimensions import formula_simplified, sizes_suggested, sizes_text
from apps.compilation.forms import CompileForm
from apps.compilation.models import CompileJob, CompileRequest, OwnProcessor, Program
from apps.compilation.progress import Progress, request_progress
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
    """The page of a version, with its programs and compiles. A POST requests new compiles."""
    if request.method == "POST":
        return _compile(request, pk)
    version = org_object_get(request, registry.versions_present(), roles=ANY_ROLE, pk=pk)
    if "already" in request.GET:
        messages.info(
            request, f"You already have this file: it was added on {version.created_at:%d %B %Y} as {version}."
        )
    return _version_page(request, version, CompileForm(version))


def _compile(request: HttpRequest, pk: UUID) -> HttpResponse:
    version = org_object_get(request, registry.versions_present(), roles=ENGINEERING, pk=pk)
    form = CompileForm(version, request.POST, request.FILES)
    if not form.is_valid():
        return _version_page(request, version, form, status=422)
    try:
        return redirect(REQUEST_PAGE, pk=_request_create(request, version, form.cleaned_data).pk)
    except Problem as refusal:
        return _version_page(request, version, form, refusal=refusal, status=422)


def _version_page(
    request: HttpRequest, version: ModelVersion, form: CompileForm, *, refusal: Problem | None = None, status: int = 200
) -> HttpResponse:
    context = {**_version_context(version), "form": form, "refusal": refusal}
    return render(request, "compilation/version_detail.html", context, status=status)


def _request_create(request: HttpRequest, version: ModelVersion, chosen: dict[str, Any]) -> CompileRequest:
    examples = chosen["calibration"].read(FILE_BYTES_MAX + 1) if chosen["calibration"] else None
    return services.request_create(
        version=version,
        targets=chosen["targets"],
        precisions=chosen["precision"],
        dims=chosen["dims"],
        constants=chosen["constants"],
        options=chosen["options"],
        calibration=examples,
        actor=principal_get(request).user,
        now=timezone.now(),
        mail=chosen["mail"],
    )


@require_POST
def version_compile(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Request the first compile of a new version, with suggested sizes."""
    version = org_object_get(request, registry.versions_present(), roles=ENGINEERING, pk=pk)
    suggested = CompileForm(version)
    form = CompileForm(version, suggested.initial)
    if selectors.jobs_last(version) or not form.is_valid():
        return redirect("compilation:version_detail", pk=pk)
    return redirect(REQUEST_PAGE, pk=_request_create(request, version, form.cleaned_data).pk)


@require_GET
def request_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page of compiles that were requested together. htmx polls the page every second while a compile runs.

    Redirects to the report once all compiles have finished, none has failed, and there is exactly one program.
    """
    asked = org_object_get(request, CompileRequest.objects.select_related("model_version__model", "created_by"), pk=pk)
    progress = request_progress(asked, now=timezone.now())
    context = {"asked": asked, "progress": progress}
    if request.headers.get("HX-Request") != "true":
        return render(request, "compilation/request_detail.html", {**context, "subtitle": _subtitle(asked, progress)})
    answer = render(request, "compilation/_request.html", context)
    if progress.is_finished and len(progress.programs) == 1 and not progress.failed:
        answer["HX-Redirect"] = reverse("program", args=progress.programs)
    return answer


def _subtitle(asked: CompileRequest, progress: Progress) -> str:
    sizes = sizes_text(progress.sizes, selectors.dimension_names(asked.model_version)) if progress.sizes else ""
    return f"{asked.model_version}, {sizes}" if sizes else str(asked.model_version)


@require_POST
def request_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Cancel the unfinished compiles of a request."""
    asked = org_object_get(request, CompileRequest, roles=ENGINEERING, pk=pk)
    services.request_cancel(request=asked, actor=principal_get(request).user, now=timezone.now())
    return redirect(REQUEST_PAGE, pk=pk)


def _version_context(version: ModelVersion) -> dict[str, Any]:
    now = timezone.now()
    programs = selectors.programs_of_version(version)
    return {
        "version": version,
        "values": [*_values(version, version.inputs, "input"), *_values(version, version.outputs, "output")],
        "evaluation": registry.evaluation_of(version),
        "others": registry.versions_present().filter(model=version.model).exclude(pk=version.pk).order_by("-number"),
        "operators": sorted(version.operators.items(), key=lambda one: (-one[1], one[0])),
        "programs": [(one, selectors.price_preview(one, now=now), selectors.program_on_chip(one)) for one in programs],
        "jobs": selectors.jobs_of_version(version),
        "api_body": {
            "version_id": str(version.pk),
            "target": "lpu",
            "dims": sizes_suggested(version.inputs, [row["name"] for row in version.symbolic_dims]),
        },
    }


def _values(version: ModelVersion, values: list[dict[str, Any]], direction: str) -> list[dict[str, Any]]:
    shown = selectors.dimension_names(version)
    return [
        {
            **value,
            "direction": direction,
            "sizes": [_size_text(str(size), value["name"], shown) for size in value["shape"]],
        }
        for value in values
    ]


def _size_text(size: str, owner: str, shown: dict[str, str]) -> str:
    if size in shown:
        return shown[size]
    return "?" if size.removeprefix(f"{owner}.").isdigit() and not size.isdigit() else formula_simplified(size)


@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    rows = selectors.jobs_list(organisation=organisation_get(request))
    page = page_of(request, rows, ordering=("-created_at", "-id"), size=PAGE_ROWS)
    return render(request, "compilation/job_list.html", {"page": page})


@require_GET
def job_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page of a job, which htmx polls every second while the job runs."""
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
    """The page of the organisation's own processors. A POST uploads a file."""
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
    faults = [fault["message"] for fault in refusal.errors] if refusal else []
    context = {"processors": selectors.processors_own(organisation), "refusal": refusal, "faults": faults}
    return render(request, "compilation/processor_list.html", context, status=refusal.status if refusal else 200)


@require_GET
def processor_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page of a custom processor."""
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
