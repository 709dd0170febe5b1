"""The API of uploads, models, versions and evaluations."""

from __future__ import annotations

from datetime import datetime
from typing import Any, BinaryIO, cast
from uuid import UUID

from django.conf import settings
from django.core.files.storage import default_storage
from django.db.models import QuerySet
from django.http import FileResponse, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Body, File, Form, Router, Schema
from ninja.files import UploadedFile
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.downloads import download_described
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem, problem_document
from apps.accounts.roles import ENGINEERING, Scope
from apps.registry import selectors, services
from apps.registry.models import DataSet, Evaluation, ModelVersion, Upload, UploadState, VersionState
from apps.registry.rates import uploads_take

router = Router(tags=["models"])
BUILD = requires(Scope.BUILD, roles=ENGINEERING)
BIG_INTEGER = 2**63 - 1


class UploadIn(RequestBody):
    filename: str = Field(min_length=1, max_length=200)
    size: Whole = Field(ge=0, le=BIG_INTEGER)
    sha256: str = ""
    name: str = Field(default="", max_length=120)
    project: str = Field(default="Default", max_length=80)


class UploadOut(Schema):
    id: UUID
    filename: str
    size: int
    received: int
    state: UploadState
    expires_at: datetime
    chunk_bytes_max: int
    position: int | None = Field(
        description="The upload's position in the queue of waiting uploads, counted from 1; null if it is not waiting."
    )
    checking_since: datetime | None
    version_id: UUID | None = Field(description="The version created from the upload.")
    is_new: bool = Field(
        description="True if the upload created a new version. False if no version exists yet or the organisation "
        "already had the same file."
    )
    problem: dict[str, Any] | None = Field(description="The reason for a rejection, as a problem document.")

    @staticmethod
    def resolve_position(row: Upload) -> int | None:
        return selectors.upload_place(row)

    @staticmethod
    def resolve_checking_since(row: Upload) -> datetime | None:
        return row.checking_since if row.state == UploadState.CHECKING else None

    @staticmethod
    def resolve_problem(row: Upload) -> dict[str, Any] | None:
        return problem_document(services.refusal_of(row)) if row.refusal else None

    @staticmethod
    def resolve_chunk_bytes_max(_row: Upload) -> int:
        return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


class CompleteIn(RequestBody):
    sha256: str = ""


class EvaluationOut(Schema):
    family_id: UUID
    dataset_name: str
    dataset_digest: str
    metric: str
    correct: int
    total: int
    lower_bound: str
    program_digest: str = Field(
        description="The program that the platform ran; empty if the version's owner supplied the figures."
    )

    @staticmethod
    def resolve_lower_bound(row: Evaluation) -> str:
        return str(row.lower_bound)


class VersionOut(Schema):
    id: UUID
    model_id: UUID
    model: str
    project: str
    number: int
    sha256: str
    size: int
    filename: str
    state: VersionState
    opset: int
    producer: str
    parameters: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    symbolic_dims: list[dict[str, Any]]
    operators: dict[str, int]
    created_at: datetime
    evaluations: list[EvaluationOut]

    @staticmethod
    def resolve_model(row: ModelVersion) -> str:
        return row.model.name

    @staticmethod
    def resolve_project(row: ModelVersion) -> str:
        return row.model.project.name


class SampleIn(RequestBody):
    slug: str = Field(max_length=60)


class SampleOut(Schema):
    slug: str
    title: str
    text: str


def _upload(request: HttpRequest, pk: UUID) -> Upload:
    return org_object_get(request, Upload, roles=ENGINEERING, pk=pk)


def _version(request: HttpRequest, pk: UUID, **access: Any) -> ModelVersion:
    return org_object_get(request, selectors.versions_present().prefetch_related("evaluations"), pk=pk, **access)


@router.post("/uploads", auth=BUILD, response={201: UploadOut}, summary="Begin an upload")
@idempotent
def upload_open(request: HttpRequest, payload: UploadIn) -> tuple[int, Upload]:
    """Begin an upload. Then PUT its chunks in order and complete the upload. Returns 409 if the organisation already
    has a file with this digest.
    """
    organisation = organisation_get(request, roles=ENGINEERING)
    uploads_take(request)
    if payload.sha256:
        known = selectors.version_of_digest(organisation=organisation, sha256=payload.sha256)
        if known is not None:
            found = [{"version_id": str(known.pk), "name": str(known)}]
            raise Problem(
                409, "You already have this file", f"These bytes are {known}.", kind="already-here", errors=found
            )
    upload = services.upload_open(
        organisation=organisation,
        actor=principal_get(request).user,
        filename=payload.filename,
        size=payload.size,
        sha256=payload.sha256,
        name=payload.name,
        project_name=payload.project,
        now=timezone.now(),
    )
    return 201, upload


@router.get("/uploads/{uuid:pk}", auth=BUILD, response=UploadOut, summary="Progress of an upload")
def upload_get(request: HttpRequest, pk: UUID) -> Upload:
    return _upload(request, pk)


@router.put("/uploads/{uuid:pk}/chunks/{int:offset}", auth=BUILD, response=UploadOut, summary="Send the next piece")
def upload_chunk(request: HttpRequest, pk: UUID, offset: int) -> Upload:
    """Store the chunk in the request body. The header `Upload-Chunk-SHA256` may state the chunk's digest. Repeating a
    chunk has no effect.
    """
    upload = _upload(request, pk)
    limit = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    stated = request.headers.get("Content-Length", "")
    if not stated.isdigit() or int(stated) > limit:
        raise Problem(
            413,
            "The piece is too large",
            f"Send pieces of at most {limit:,} bytes, with a Content-Length.",
            kind="piece-too-large",
        )
    return services.upload_chunk_put(
        organisation=upload.organisation,
        upload_id=upload.pk,
        offset=offset,
        data=request.body,
        sha256=request.headers.get("Upload-Chunk-SHA256", ""),
        now=timezone.now(),
    )


@router.post(
    "/uploads/{uuid:pk}/complete",
    auth=BUILD,
    response={200: VersionOut, 201: VersionOut, 202: UploadOut},
    summary="Complete an upload and check the file",
)
def upload_complete(
    request: HttpRequest, response: HttpResponse, pk: UUID, payload: CompleteIn | None = None
) -> tuple[int, ModelVersion | Upload]:
    """Queue the file for its check. Returns 202 until the check ends. Repeat the call after the number of seconds in
    the header Retry-After.

    After the check, the call returns 201 with the new version, 200 with the existing version if the organisation
    already has the file, or 422 with every fault.
    """
    upload = services.upload_complete(
        organisation=_upload(request, pk).organisation,
        upload_id=pk,
        sha256=payload.sha256 if payload else "",
        now=timezone.now(),
    )
    if upload.refusal:
        raise services.refusal_of(upload)
    if upload.version is None:
        response["Retry-After"] = "1"
        return 202, upload
    return (201 if upload.is_new else 200), upload.version


@router.delete("/uploads/{uuid:pk}", auth=BUILD, response={204: None}, summary="Cancel an upload")
def upload_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    upload = _upload(request, pk)
    services.upload_cancel(organisation=upload.organisation, upload_id=upload.pk, now=timezone.now())
    return HttpResponse(status=204)


@router.get("/samples", response=list[SampleOut], summary="The sample models")
def sample_list(request: HttpRequest) -> list[selectors.Sample]:
    return list(selectors.SAMPLES)


@router.post("/samples", auth=BUILD, response={201: VersionOut}, summary="Add a sample model")
@idempotent
def sample_add(request: HttpRequest, payload: SampleIn) -> tuple[int, ModelVersion]:
    organisation = organisation_get(request, roles=ENGINEERING)
    uploads_take(request)
    actor = principal_get(request).user
    return 201, services.sample_add(organisation=organisation, actor=actor, slug=payload.slug, now=timezone.now())


@router.get("/versions", response=list[VersionOut], summary="Every model version, newest first")
@paginate(Cursor, ordering=("-created_at", "-id"))
def version_list(request: HttpRequest) -> QuerySet[ModelVersion]:
    organisation = organisation_get(request)
    return selectors.versions_present().prefetch_related("evaluations").filter(organisation=organisation)


@router.get("/versions/{uuid:pk}", response=VersionOut, summary="One model version")
def version_get(request: HttpRequest, pk: UUID) -> ModelVersion:
    return _version(request, pk)


@router.get(
    "/versions/{uuid:pk}/file", summary="The model file", openapi_extra=download_described("application/octet-stream")
)
def version_file(request: HttpRequest, pk: UUID) -> FileResponse:
    return file_response(_version(request, pk))


@router.delete("/versions/{uuid:pk}", auth=BUILD, response={204: None}, summary="Delete the file of a version")
def version_delete(request: HttpRequest, pk: UUID) -> HttpResponse:
    version = _version(request, pk, roles=ENGINEERING)
    services.version_delete(version=version, actor=principal_get(request).user, now=timezone.now())
    return HttpResponse(status=204)


@router.put(
    "/versions/{uuid:pk}/evaluation", auth=BUILD, response=EvaluationOut, summary="Store an evaluation of a version"
)
def evaluation_put(request: HttpRequest, pk: UUID, payload: Body[dict[str, Any]]) -> Evaluation:
    """Store a version's answers and confidences on held-out items. The guide "Evaluations" describes the format."""
    version = _version(request, pk, roles=ENGINEERING)
    actor = principal_get(request).user
    return services.evaluation_record(version=version, document=payload, actor=actor, now=timezone.now())


def data_set_response(data_set: DataSet) -> FileResponse:
    """Return the stored data set as a download."""
    file = default_storage.open(data_set.storage_key, "rb")
    name = f"{data_set.digest[:12]}.npz"
    return FileResponse(file, as_attachment=True, filename=name, content_type="application/octet-stream")


def file_response(version: ModelVersion) -> FileResponse:
    """Return the stored model file as a download."""
    file = selectors.modelversion_open(version)
    return FileResponse(file, as_attachment=True, filename=version.filename, content_type="application/octet-stream")


class DataSetOut(Schema):
    id: UUID
    name: str
    digest: str
    items: int
    inputs: list[dict[str, Any]]
    label_shape: list[int] | None = Field(
        description="[] for one class number an item; null where there are no labels."
    )
    classes: int
    seed: int
    choose: int = Field(description="The number of tuning items; the other items are test items.")
    size: int
    created_at: datetime


def _data_set(request: HttpRequest, pk: UUID, **access: Any) -> DataSet:
    return org_object_get(request, DataSet.objects.filter(deleted_at=None), pk=pk, **access)


@router.post("/data-sets", auth=BUILD, response={200: DataSetOut, 201: DataSetOut}, summary="Store a labelled data set")
@idempotent
def data_set_add(
    request: HttpRequest,
    file: File[UploadedFile],
    name: Form[str] = "",
    seed: Form[int] = 1,
    choose_percent: Form[int] = 33,
) -> tuple[int, DataSet]:
    """Store a labelled data set from a .npz file with the array `labels` and one array for each model input. Items lie
    along the first axis. Returns 200 if the data set is already stored.
    """
    row, is_new = services.dataset_add(
        organisation=organisation_get(request, roles=ENGINEERING),
        file=cast("BinaryIO", file.file),
        size=file.size or 0,
        name=name or file.name or "",
        seed=seed,
        choose_percent=choose_percent,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return (201 if is_new else 200), row


@router.get("/data-sets", auth=requires(Scope.READ), response=list[DataSetOut], summary="Data sets, newest first")
@paginate(Cursor, ordering=("-created_at", "-id"))
def data_set_list(request: HttpRequest) -> QuerySet[DataSet]:
    return selectors.data_sets(organisation=organisation_get(request))


@router.get("/data-sets/{uuid:pk}", auth=requires(Scope.READ), response=DataSetOut, summary="One data set")
def data_set_get(request: HttpRequest, pk: UUID) -> DataSet:
    return _data_set(request, pk)


@router.delete("/data-sets/{uuid:pk}", auth=BUILD, response={204: None}, summary="Delete a data set's file")
def data_set_delete(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    data_set = _data_set(request, pk, roles=ENGINEERING)
    services.dataset_delete(data_set=data_set, actor=principal_get(request).user, now=timezone.now())
    return 204, None
