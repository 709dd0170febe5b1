"""Pages to list, upload and delete models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from tempfile import TemporaryFile
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.files.base import File
from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.registry import selectors, services
from apps.registry.api import file_response
from apps.registry.forms import UploadForm
from apps.registry.inspection.compilable import supported_operators
from apps.registry.models import Model, ModelVersion, Upload
from apps.registry.packages import package_write
from apps.registry.rates import uploads_take

VERSION_PAGE = "compilation:version_detail"
EVALUATION_BYTES_MAX = 4 * 2**20


@require_GET
def model_list(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request)
    project, text = request.GET.get("project", ""), request.GET.get("q", "")
    context = {
        "models": selectors.models_list(organisation=organisation, project=project, text=text),
        "projects": selectors.projects_list(organisation=organisation),
        "project": project,
        "text": text,
        "samples": selectors.SAMPLES,
    }
    return render(request, "registry/model_list.html", context)


@require_GET
def model_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Redirect to the page of a model's newest version."""
    model = org_object_get(request, Model, pk=pk)
    version = selectors.versions_present().filter(model=model).order_by("-number").first()
    return redirect(VERSION_PAGE, pk=version.pk) if version else redirect("registry:model_list")


@require_http_methods(["GET", "POST"])
def model_upload(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request, roles=ENGINEERING)
    form = UploadForm(request.POST or None, request.FILES or None)
    refusal: Problem | None = None
    if request.method == "POST" and form.is_valid():
        try:
            return _whole_file_take(request, organisation, form)
        except Problem as problem:
            refusal = problem
    return _upload_page(request, form, refusal)


@require_GET
def upload_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the state of an upload, for browsers without JavaScript."""
    upload = org_object_get(request, Upload, roles=ENGINEERING, pk=pk)
    if upload.version_id:
        if not upload.is_new:
            messages.info(request, "You already have this file, so it was not stored again.")
        return redirect(VERSION_PAGE, pk=upload.version_id)
    if upload.refusal:
        return _upload_page(request, UploadForm(), services.refusal_of(upload))
    context = {
        "upload": upload,
        "place": selectors.upload_place(upload),
        "now": timezone.now(),
        "api_path": f"/api/v1/uploads/{pk}",
    }
    return render(request, "registry/upload_wait.html", context)


def _upload_page(request: HttpRequest, form: UploadForm, refusal: Problem | None) -> HttpResponse:
    operators = {domain: sorted(names) for domain, names in (supported_operators() or {}).items()}
    context = {
        "form": form,
        "refusal": refusal,
        "refusal_lines": [f"{error['message']} {error.get('remedy', '')}".strip() for error in refusal.errors]
        if refusal
        else [],
        "list_url": reverse("registry:model_list"),
        "api_body": {"filename": "net.onnx", "size": 341373},
        "samples": selectors.SAMPLES,
        "bytes_max": settings.UPLOAD_BYTES_MAX,
        "settings_of_page": {
            "bytes_max": settings.UPLOAD_BYTES_MAX,
            "chunk_bytes": min(4 * 2**20, settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
            "operators": operators,
        },
    }
    return render(request, "registry/upload.html", context, status=refusal.status if refusal else 200)


def _whole_file_take(request: HttpRequest, organisation: Organisation, form: UploadForm) -> HttpResponse:
    uploads_take(request)
    actor, now = principal_get(request).user, timezone.now()
    file = _file_of(form.cleaned_data["file"])
    upload = services.upload_open(
        organisation=organisation,
        actor=actor,
        filename=file.name or "model.onnx",
        size=file.size or 0,
        name=form.cleaned_data["name"],
        project_name=form.cleaned_data["project"],
        now=now,
    )
    offset = 0
    for piece in file.chunks(4 * 2**20):
        services.upload_chunk_put(organisation=organisation, upload_id=upload.pk, offset=offset, data=piece, now=now)
        offset += len(piece)
    services.upload_complete(organisation=organisation, upload_id=upload.pk, now=now)
    return redirect("registry:upload_detail", pk=upload.pk)


def _file_of(files: Sequence[UploadedFile[Any]]) -> File[bytes]:
    """Return the only file, or a temporary archive of all files."""
    if len(files) == 1:
        return files[0]
    archive = TemporaryFile()  # noqa: SIM115 - it is deleted when it is closed, with the last reference
    package_write([(file.name or "", file.size or 0, file) for file in files], archive)
    archive.seek(0)
    named = next(
        (PurePosixPath(file.name or "").stem for file in files if (file.name or "").endswith(".onnx")), "model"
    )
    return File(archive, f"{named}.tar")


@require_POST
def sample_add(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request, roles=ENGINEERING)
    uploads_take(request)
    actor, slug = principal_get(request).user, request.POST.get("slug", "")
    version = services.sample_add(organisation=organisation, actor=actor, slug=slug, now=timezone.now())
    return redirect(VERSION_PAGE, pk=version.pk)


@require_POST
def version_delete(request: HttpRequest, pk: UUID) -> HttpResponse:
    version = org_object_get(request, selectors.versions_present(), roles=ENGINEERING, pk=pk)
    services.version_delete(version=version, actor=principal_get(request).user, now=timezone.now())
    messages.success(request, f"{version} was deleted.")
    return redirect("registry:model_list")


@require_GET
def version_file(request: HttpRequest, pk: UUID) -> FileResponse:
    return file_response(org_object_get(request, selectors.versions_present(), pk=pk))


@require_POST
def evaluation_add(request: HttpRequest, pk: UUID) -> HttpResponse:
    version: ModelVersion = org_object_get(request, selectors.versions_present(), roles=ENGINEERING, pk=pk)
    file = request.FILES.get("file")
    if file is None or (file.size or 0) > EVALUATION_BYTES_MAX:
        raise Problem(422, "No evaluation", "Choose a JSON file of at most 4 MiB.", kind="evaluation-missing")
    try:
        document = json.loads(file.read())
    except ValueError:
        raise Problem(422, "No evaluation", "The file is not JSON.", kind="evaluation-missing") from None
    if not isinstance(document, dict):
        raise Problem(422, "No evaluation", "The file must hold one JSON object.", kind="evaluation-missing")
    services.evaluation_record(
        version=version, document=document, actor=principal_get(request).user, now=timezone.now()
    )
    messages.success(request, "The evaluation was stored.")
    return redirect(VERSION_PAGE, pk=version.pk)
