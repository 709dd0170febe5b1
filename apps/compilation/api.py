"""JSON API for compile jobs, programs and their reports."""

from __future__ import annotations

from base64 import b64decode
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.downloads import download_described
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Whole
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING, Scope
from apps.compilation import selectors, services
from apps.compilation.calibration import FILE_BYTES_MAX
from apps.compilation.models import CompileJob, CompileState, Program
from apps.compilation.options import options_of
from apps.fleet.selectors import targets_known
from apps.registry.selectors import versions_present

router = Router(tags=["compiles"])
BUILD = requires(Scope.BUILD, roles=ENGINEERING)
CALIBRATION_MAX = 4 * (FILE_BYTES_MAX // 3 + 1)


class TargetOut(Schema):
    name: str
    digest: str


class CompileIn(RequestBody):
    version_id: UUID
    target: str = Field(max_length=60)
    precision: str = "float32"
    dims: dict[str, Whole | list[Whole]] = {}
    constants: dict[str, Any] = {}
    states: dict[str, str] = Field(
        {}, description="Inputs that stay on the processor, each with the output that becomes its next value."
    )
    bounds: dict[str, Whole] = Field({}, description="The most trips of each loop that the data ends.")
    context: Whole | None = Field(
        None,
        description="The tokens that a sequence has at most. Caches that grow stay on the processor. Leave the caches' number "
        "of rows out of `dims`.",
    )
    caches: dict[str, str] = Field(
        {}, description="With `context`: the caches, each with the output that continues it. Empty: all are found."
    )
    calibration: str = Field(
        "",
        description="A .npz file of example inputs for float16 and int8, encoded in base64",
        max_length=CALIBRATION_MAX,
    )


class CompileOut(Schema):
    id: UUID
    version_id: UUID
    target: str
    precision: str
    dims: dict[str, Any]
    options: dict[str, Any] = Field(description="States, caches, bounds and the context, as far as they were given.")
    state: CompileState
    stage: str
    stages: list[dict[str, Any]]
    error: dict[str, Any] | None
    comparison: dict[str, Any] | None
    program_ids: list[UUID]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @staticmethod
    def resolve_version_id(row: CompileJob) -> UUID:
        return row.model_version_id


class ProgramOut(Schema):
    id: UUID
    version_id: UUID
    target: str
    target_digest: str
    precision: str
    dims: dict[str, Any]
    options: dict[str, Any] = Field(description="States, caches, bounds and the context, as far as they were given.")
    sequence: dict[str, Any] = Field(
        description="For a program that continues a sequence: `kind` (decode or prefill), `tokens` that one execution adds, and "
        "`context`. Empty for other programs."
    )
    digest: str
    binary_bytes: int
    compiler_version: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    resources: dict[str, Any]
    bounds: dict[str, Any]
    accuracy: dict[str, Any]
    executed: dict[str, Any]
    exact: bool
    reason: str
    latency_cycles: int
    interval_cycles: int
    clock_hz: int
    operations: int
    executed_operations: int
    created_at: datetime

    @staticmethod
    def resolve_version_id(row: Program) -> UUID:
        return row.model_version_id

    @staticmethod
    def resolve_resources(row: Program) -> dict[str, Any]:
        return selectors.program_resources(row)


@router.get("/targets", response=list[TargetOut], summary="Processor versions that models can be compiled for")
def target_list(request: HttpRequest) -> list[dict[str, str]]:
    known = {target.name: target.digest for target in targets_known()}
    own = {row.name: row.digest for row in selectors.processors_own(organisation_get(request))}
    return [{"name": name, "digest": digest} for name, digest in {**known, **own}.items()]


@router.post("/compiles", auth=BUILD, response={201: CompileOut}, summary="Compile a model version for a target")
@idempotent
def compile_create(request: HttpRequest, payload: CompileIn) -> tuple[int, CompileJob]:
    """Start a compile. For each variable dimension, give a number or a list of numbers.

    Each combination of sizes becomes one program. Poll the job until its state is final.
    """
    version = org_object_get(request, versions_present(), roles=ENGINEERING, pk=payload.version_id)
    job = services.job_create(
        version=version,
        target=payload.target,
        precision=payload.precision,
        dims=dict(payload.dims),
        constants=payload.constants,
        options=options_of(
            states=payload.states, caches=payload.caches, bounds=payload.bounds, context=payload.context
        ),
        calibration=_examples(payload.calibration),
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return 201, job


def _examples(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True) or None
    except ValueError:
        raise Problem(
            422, "Not base64", "Send the calibration .npz file encoded in base64.", kind="base64-invalid"
        ) from None


@router.get("/compiles", response=list[CompileOut], summary="Compile jobs, newest first")
@paginate(Cursor, ordering=("-created_at", "-id"))
def compile_list(request: HttpRequest) -> QuerySet[CompileJob]:
    return selectors.jobs_list(organisation=organisation_get(request))


@router.get("/compiles/{uuid:pk}", response=CompileOut, summary="One compile job with its stages")
def compile_get(request: HttpRequest, pk: UUID) -> CompileJob:
    return org_object_get(request, CompileJob, pk=pk)


@router.post("/compiles/{uuid:pk}/cancel", auth=BUILD, response=CompileOut, summary="Stop a compile")
def compile_cancel(request: HttpRequest, pk: UUID) -> CompileJob:
    job = org_object_get(request, CompileJob, roles=ENGINEERING, pk=pk)
    return services.job_cancel(job=job, actor=principal_get(request).user, now=timezone.now())


@router.post(
    "/compiles/{uuid:pk}/retry", auth=BUILD, response=CompileOut, summary="Restart a failed or cancelled compile"
)
def compile_retry(request: HttpRequest, pk: UUID) -> CompileJob:
    job = org_object_get(request, CompileJob, roles=ENGINEERING, pk=pk)
    return services.job_retry(job=job, actor=principal_get(request).user, now=timezone.now())


@router.get("/programs", response=list[ProgramOut], summary="Programs, newest first")
@paginate(Cursor, ordering=("-created_at", "-id"))
def program_list(request: HttpRequest, version_id: UUID | None = None) -> QuerySet[Program]:
    rows = Program.objects.filter(organisation=organisation_get(request))
    return rows.filter(model_version_id=version_id) if version_id else rows


@router.get("/programs/{uuid:pk}", response=ProgramOut, summary="One program: counts, cycles, digests")
def program_get(request: HttpRequest, pk: UUID) -> Program:
    return org_object_get(request, Program, pk=pk)


@router.get("/programs/{uuid:pk}/report", response=dict[str, Any], summary="The whole resource report")
def program_report(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    return selectors.program_report(org_object_get(request, Program, pk=pk))


@router.get(
    "/programs/{uuid:pk}/binary",
    openapi_extra=download_described("application/octet-stream"),
    summary="The executable binary",
)
def program_binary(request: HttpRequest, pk: UUID) -> FileResponse:
    program = org_object_get(request, Program, pk=pk)
    return FileResponse(
        selectors.program_open(program),
        as_attachment=True,
        filename=f"{program.digest[:16]}.bin",
        content_type="application/octet-stream",
    )


@router.get("/programs/{uuid:pk}/trace", response=dict[str, Any], summary="The schedule as trace events")
def program_trace(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    return selectors.program_trace(org_object_get(request, Program, pk=pk))


@router.get(
    "/programs/{uuid:pk}/disassembly", openapi_extra=download_described("text/plain"), summary="The disassembled binary"
)
def program_disassembly(request: HttpRequest, pk: UUID) -> HttpResponse:
    text = selectors.program_disassembly(org_object_get(request, Program, pk=pk))
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@router.get(
    "/programs/{uuid:pk}/graph-text",
    openapi_extra=download_described("text/plain"),
    summary="The graph in the text form, with its weights",
)
def program_graph_text(request: HttpRequest, pk: UUID) -> FileResponse:
    """Return what the program was compiled from. Raises Http404 if the graph is not stored as text."""
    program = org_object_get(request, Program, pk=pk)
    if not selectors.has_graph_text(program):
        raise Http404
    name = f"{program.digest[:16]}.takt.txt"
    file = selectors.program_graph_text(program)
    return FileResponse(file, as_attachment=True, filename=name, content_type="text/plain; charset=utf-8")


@router.post("/programs/{uuid:pk}/compare", auth=BUILD, response={201: CompileOut}, summary="Compile again and compare")
@idempotent
def program_compare(request: HttpRequest, pk: UUID) -> tuple[int, CompileJob]:
    program = org_object_get(request, Program, roles=ENGINEERING, pk=pk)
    return 201, services.job_compare(program=program, actor=principal_get(request).user, now=timezone.now())
