"""JSON API of jobs."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, BinaryIO, Literal, cast
from uuid import UUID

from django.core.files.storage import default_storage
from django.db.models import QuerySet
from django.http import FileResponse, Http404, HttpRequest
from django.utils import timezone
from ninja import File, Form, Router, Schema
from ninja.files import UploadedFile
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.downloads import download_described
from apps.accounts.idempotency import idempotent
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING, Scope
from apps.dispatch import selectors, services
from apps.dispatch.fleet.api import router as fleet_router
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.dispatch.progress import job_view
from apps.dispatch.promises import promises_of_contract, promises_of_job
from apps.dispatch.services.jobs import inputs_problem
from apps.pricing.rating import decimal_text
from apps.registry.feeds import InputError, Limits, arrays_read, arrays_read_json
from apps.registry.feeds.check import Array
from apps.sales.models import Contract

router = Router(tags=["jobs"])
router.add_router("", fleet_router)
RUN = requires(Scope.RUN, roles=ENGINEERING)
LIMITS = Limits()


class JobIn(RequestBody):
    contract: UUID
    program: UUID | None = None
    inputs: dict[str, Any]
    name: str = Field(default="", max_length=800, description="Your own name for the job: at most 80 characters.")


class JobNameIn(RequestBody):
    name: str = Field(max_length=800, description="At most 80 characters. An empty string removes the name.")


class PromiseOut(Schema):
    """A promise and its outcome. Values are exact: a fraction ("3/4") for seconds or a share, an instant, or an amount.
    `kept` is the actual value; empty while unknown.
    """

    name: Literal["accuracy", "latency", "completion", "price"]
    promised: str
    kept: str
    verdict: Literal["kept", "missed", "within chance", "not known yet", "not judged"]


class BlockOut(Schema):
    id: UUID
    stage: int
    program: str
    device: str
    from_item: int
    count: int
    state: LeaseState
    epoch: int
    device_from: datetime
    device_to: datetime
    host: str
    amount: str | None
    counters: dict[str, Any] | None


class SegmentOut(Schema):
    name: str
    start: datetime | None
    end: datetime | None
    note: str


class JobOut(Schema):
    id: UUID
    number: str = Field(description="Unique in the organisation, for example J-0012.")
    name: str = Field(description="Your own name for the job; empty if the job has none.")
    contract: UUID
    pool: str
    state: JobState
    is_sample: bool = Field(description="True if the job is sample data for a demo and was not run by a worker.")
    items: int
    executions_done: int
    blocks_done: int
    blocks_total: int
    blocks_ahead: int
    submitted_at: datetime
    starts_at: datetime | None
    ends_at: datetime | None
    finished_at: datetime | None
    waiting_reason: str
    problem: str
    latency: str
    cost: str
    quoted: str
    quoted_most: str
    currency: str
    outputs: str | None
    promises: list[PromiseOut] = Field(
        description="The contract's promises; empty if the contract was not bought from a plan."
    )
    segments: list[SegmentOut]


class JobRow(Schema):
    id: UUID
    number: str
    name: str
    contract_id: UUID
    pool: str
    state: JobState
    is_sample: bool
    items: int
    submitted_at: datetime
    finished_at: datetime | None
    blocks_done: int
    blocks_total: int

    @staticmethod
    def resolve_number(job: Job) -> str:
        return job.reference

    @staticmethod
    def resolve_pool(job: Job) -> str:
        return job.contract.pool.slug


def job_out(job: Job, *, now: datetime) -> JobOut:
    """Return the job as the API shows it."""
    view = job_view(job, now=now)
    return JobOut(
        id=job.pk,
        number=job.reference,
        name=job.name,
        contract=job.contract_id,
        pool=job.contract.pool.slug,
        state=JobState(job.state),
        is_sample=job.is_sample,
        items=job.items,
        executions_done=view.executions_done,
        blocks_done=view.blocks_done,
        blocks_total=view.blocks_total,
        blocks_ahead=view.ahead,
        submitted_at=job.submitted_at,
        starts_at=view.starts_at,
        ends_at=view.ends_at,
        finished_at=job.finished_at,
        waiting_reason=view.waiting_reason,
        problem=job.problem,
        latency="measured, not proven" if view.is_measured else "proven",
        cost=decimal_text(view.cost),
        quoted=decimal_text(view.quoted),
        quoted_most=decimal_text(view.quoted_most),
        currency=view.currency,
        outputs=f"/api/v1/jobs/{job.pk}/outputs" if job.outputs_key else None,
        promises=[PromiseOut(**one.to_json()) for one in promises_of_job(job, now=now)],
        segments=[SegmentOut(name=one.name, start=one.start, end=one.end, note=one.note) for one in view.segments],
    )


def _contract(request: HttpRequest, pk: UUID) -> Contract:
    try:
        return org_object_get(request, Contract.objects.select_related("pool"), roles=ENGINEERING, pk=pk)
    except Http404:
        raise Problem(
            404, "Not found", f"There is no contract {pk}, or you may not use it.", kind="not-found"
        ) from None


def _uuid(text: str) -> str:
    try:
        return str(UUID(text)) if text else ""
    except ValueError:
        raise Problem(422, "Not an id", f"'{text[:60]}' is not the id of a contract.", kind="id-invalid") from None


def _job(request: HttpRequest, pk: UUID, **access: Any) -> Job:
    return org_object_get(
        request, Job.objects.select_related("contract__pool", "contract__organisation"), pk=pk, **access
    )


def _submit(
    request: HttpRequest, contract: Contract, arrays: dict[str, Array], wanted: UUID | None, name: str
) -> tuple[int, JobOut]:
    now, principal = timezone.now(), principal_get(request)
    job = services.job_create(
        contract=contract,
        arrays=arrays,
        actor=principal.user,
        now=now,
        wanted=wanted,
        token_id=principal.token.pk if principal.token else None,
        name=name,
    )
    return 201, job_out(job, now=now)


@router.post("/jobs", auth=RUN, response={201: JobOut}, summary="Submit a job with JSON inputs")
@idempotent
def job_create(request: HttpRequest, payload: JobIn) -> tuple[int, JobOut]:
    """Submits a job. `inputs` maps the name of each input to nested lists. The outermost list holds the items. For a
    quota contract, `program` names the program to run.
    """
    contract = _contract(request, payload.contract)
    try:
        arrays = arrays_read_json(payload.inputs, selectors.offer_of(contract, payload.program).inputs[0][1])
    except InputError as error:
        raise inputs_problem(error) from error
    return _submit(request, contract, arrays, payload.program, payload.name)


@router.post("/jobs/npz", auth=RUN, response={201: JobOut}, summary="Submit a job with a .npz file")
@idempotent
def job_create_npz(
    request: HttpRequest,
    contract: Form[UUID],
    inputs: File[UploadedFile],
    program: Form[UUID | None] = None,
    name: Form[str] = "",
) -> tuple[int, JobOut]:
    """Submits a job. The file has one array for each input, with the items along the first axis. For a program with one
    input, the file can also be a .npy file.
    """
    owned = _contract(request, contract)
    return _submit(request, owned, arrays_of(inputs, owned, program), program, name)


def arrays_of(file: UploadedFile, contract: Contract, wanted: UUID | None = None) -> dict[str, Array]:
    """Read the arrays of an uploaded file. Raises Problem(413) or Problem(422)."""
    if (file.size or 0) > LIMITS.file_bytes:
        detail = (
            f"The file is {file.size:,} bytes; at most {LIMITS.file_bytes:,} are allowed. Split the items into several "
            "jobs."
        )
        raise Problem(413, "File too large", detail, kind="inputs-too-large")
    try:
        return arrays_read(cast("BinaryIO", file.file), selectors.offer_of(contract, wanted).inputs[0][1], LIMITS)
    except InputError as error:
        raise inputs_problem(error) from error


@router.get("/jobs", auth=requires(Scope.READ), response=list[JobRow], summary="The organisation's jobs")
@paginate(Cursor, ordering=("-submitted_at", "-id"))
def job_list(request: HttpRequest, state: str = "", contract: str = "") -> QuerySet[Job]:
    """Lists jobs, newest first. `state` and `contract` filter the list."""
    if state and state not in JobState.values:
        raise Problem(
            422, "Unknown state", f"A job's state is one of {', '.join(JobState.values)}.", kind="state-unknown"
        )
    return selectors.jobs_shown(organisation_get(request), state=state, contract=_uuid(contract))


@router.get("/jobs/{uuid:pk}", auth=requires(Scope.READ), response=JobOut, summary="A job's state")
def job_get(request: HttpRequest, pk: UUID) -> JobOut:
    """Returns the job with its state, times, blocks, cost and quoted price. Amounts are exact decimals as text."""
    return job_out(_job(request, pk), now=timezone.now())


@router.patch("/jobs/{uuid:pk}", auth=RUN, response=JobOut, operation_id="job_rename", summary="Name a job")
def job_rename(request: HttpRequest, pk: UUID, payload: JobNameIn) -> JobOut:
    """Sets the job's name."""
    job, now = _job(request, pk, roles=ENGINEERING), timezone.now()
    job.name = services.job_rename(job_id=job.pk, name=payload.name, actor=principal_get(request).user, now=now).name
    return job_out(job, now=now)


@router.get("/jobs/{uuid:pk}/blocks", auth=requires(Scope.READ), response=list[BlockOut], summary="A job's blocks")
def job_blocks(request: HttpRequest, pk: UUID) -> list[BlockOut]:
    """Returns every block of the job with its device time, counters and amount."""
    view = job_view(_job(request, pk), now=timezone.now())
    return [_block_out(row.lease, row.program, row.amount) for row in view.blocks]


def _block_out(lease: Lease, program: str, amount: Decimal | None) -> BlockOut:
    return BlockOut(
        id=lease.pk,
        stage=lease.stage.position,
        program=program,
        device=lease.device.name,
        from_item=lease.from_item,
        count=lease.count,
        state=LeaseState(lease.state),
        epoch=lease.epoch,
        device_from=lease.device_from,
        device_to=lease.device_to,
        host=lease.host,
        amount=None if amount is None else decimal_text(amount),
        counters=lease.counters,
    )


@router.get(
    "/jobs/{uuid:pk}/outputs",
    auth=requires(Scope.READ),
    summary="A job's outputs as .npz",
    openapi_extra=download_described("application/zip"),
)
def job_outputs(request: HttpRequest, pk: UUID) -> FileResponse:
    """Returns one array for each output, with the items along the first axis."""
    return outputs_response(_job(request, pk))


def outputs_response(job: Job) -> FileResponse:
    """Return the outputs as a download. Raises Problem(409) if the job has no outputs."""
    if not job.outputs_key:
        detail = (
            "This job has no outputs."
            if job.is_final
            else "This job is not finished. Request the outputs again when the job's state is 'done'."
        )
        raise Problem(409, "No outputs", detail, kind="no-outputs")
    return FileResponse(
        default_storage.open(job.outputs_key),
        as_attachment=True,
        filename=f"{job.reference}-outputs.npz",
        content_type="application/zip",
    )


@router.post("/jobs/{uuid:pk}/labels", auth=RUN, response=JobOut, summary="Add labels to the items of a finished job")
def job_labels(request: HttpRequest, pk: UUID, labels: File[UploadedFile | None] = None) -> JobOut:
    """Adds labels to a finished job, as a .npz file with the array `labels`, a .npy file, or a CSV file with one line
    for each item. Later labels replace earlier labels. The outputs are evaluated with the metric of the contract's
    task, or with accuracy if there is no task. `promises` shows the result.
    """
    job, now = _job(request, pk, roles=ENGINEERING), timezone.now()
    if labels is None:
        raise Problem(
            422, "No file", "Send the labels in the file field `labels`, as .npz, .npy or CSV.", kind="labels-invalid"
        )
    services.job_labels_add(
        job=job, file=cast("BinaryIO", labels.file), size=labels.size or 0, actor=principal_get(request).user, now=now
    )
    return job_out(job, now=now)


@router.get(
    "/contracts/{uuid:pk}/promises",
    auth=requires(Scope.READ),
    response=list[PromiseOut],
    operation_id="contract_promises",
    summary="A contract's promises, and whether each was met",
)
def contract_promises(request: HttpRequest, pk: UUID) -> list[PromiseOut]:
    """Evaluates the promises over all jobs of the contract. The list is empty if the contract was not bought from a
    plan.
    """
    contract = org_object_get(request, Contract.objects.select_related("pool", "organisation"), pk=pk)
    return [PromiseOut(**one.to_json()) for one in promises_of_contract(contract, now=timezone.now())]


@router.post("/jobs/{uuid:pk}/cancel", auth=RUN, response=JobOut, summary="Cancel a job")
def job_cancel(request: HttpRequest, pk: UUID) -> JobOut:
    """Cancels the job. Finished blocks are kept and billed. All other executions are returned to the contract. Responds
    with 409 if the job has ended.
    """
    job = _job(request, pk, roles=ENGINEERING)
    now = timezone.now()
    services.job_cancel(job_id=job.pk, actor=principal_get(request).user, now=now)
    job.refresh_from_db()
    return job_out(job, now=now)
