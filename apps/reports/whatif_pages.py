"""The pages and the API of what-ifs and uploaded traces."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.files.base import File as DjangoFile
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import pluralize
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from ninja import Field, File, Router, Schema
from ninja.files import UploadedFile

from apps.accounts.access import platform_admin_check, platform_admin_required, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.models import User
from apps.accounts.paging import Cursor, page_of, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.reports.changes import Change
from apps.reports.demand_traces import trace_upload
from apps.reports.models import DemandTrace, WhatIf
from apps.reports.proposals import is_of_the_fleet
from apps.reports.rerating_pages import shown
from apps.reports.whatif import what_if_cancel, what_if_request
from apps.reports.whatif_forms import TraceForm, WhatIfForm

router = Router(tags=["capacity"])
PER_PAGE = 20
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class TraceOut(Schema):
    """An uploaded trace. `ignored` lists the unknown columns."""

    id: UUID
    name: str
    format: str
    requests: float
    first_at: datetime
    last_at: datetime
    ignored: list[str]
    uploaded_at: datetime


class WhatIfIn(RequestBody):
    """The change to assume.

    `devices`: the number of devices to add to each pool; negative numbers remove devices. `failed_sites`: the slugs of
    sites that fail. `power_percent`: a percentage of the present power setting. `demand_factor`: a factor for the
    present demand. `trace_pool`: the pool that serves the requests of `trace`. `request_seconds`: the device time of
    one request. `book`: the version of a published price book.
    """

    devices: dict[str, int] = Field(default_factory=dict, max_length=1000)
    failed_sites: list[str] = Field(default_factory=list, max_length=1000)
    power_percent: int = 100
    demand_factor: float = 1.0
    trace: UUID | None = None
    trace_pool: str = Field(default="", max_length=40)
    request_seconds: float = 0.0
    book: int | None = None


class SideOut(Schema):
    """Shares of device time for each hour of the week (UTC, from Monday), waiting times in seconds, and the hourly cost
    of the devices. Unknown values are null.
    """

    devices: int
    mean: float | None
    peak: float | None
    by_hour: list[float | None]
    headroom: dict[str, datetime | None] | None
    waits: dict[str, float] | None
    unserved: int
    cost_per_hour: str | None


class DifferenceOut(Schema):
    """A pool at present (`now`) and after the change (`then`)."""

    pool: str
    now: SideOut
    then: SideOut


class WhatIfOut(Schema):
    """`pools` is null until `finished_at` is set.

    `rerating_id` identifies the re-rating of last month's usage with the chosen price book.
    """

    id: UUID
    asked_at: datetime
    change: dict[str, Any]
    trace_id: UUID | None
    rerating_id: UUID | None
    steps_total: int
    steps_done: int
    finished_at: datetime | None
    cancelled_at: datetime | None
    pools: list[DifferenceOut] | None

    @staticmethod
    def resolve_pools(what_if: WhatIf) -> list[dict[str, Any]] | None:
        pools: list[dict[str, Any]] | None = what_if.result
        return pools


@router.get(
    "/capacity/traces",
    auth=requires(Scope.ADMIN),
    response=list[TraceOut],
    operation_id="trace_list",
    summary="Uploaded traces, newest first",
)
@paginate(Cursor, ordering=("-uploaded_at", "-id"))
def trace_list(request: HttpRequest) -> QuerySet[DemandTrace]:
    """Returns the uploaded traces."""
    return DemandTrace.objects.defer("hours", "seconds")


@router.post(
    "/capacity/traces",
    auth=requires(Scope.ADMIN),
    response={201: TraceOut},
    operation_id="trace_create",
    summary="Upload a trace",
)
@idempotent
def trace_create(request: HttpRequest, file: File[UploadedFile]) -> tuple[int, DemandTrace]:
    """Accepts CSV with a `timestamp` column, OpenTelemetry spans as JSON lines, or an access log.

    CSV may also have the columns `count` and `program`. Lines must be in chronological order.
    """
    return 201, _uploaded(file, principal_get(request).user)


@router.post(
    "/capacity/what-if",
    auth=requires(Scope.ADMIN),
    response={202: WhatIfOut},
    operation_id="what_if_create",
    summary="Start a what-if",
)
@idempotent
def what_if_create(request: HttpRequest, payload: WhatIfIn) -> tuple[int, WhatIf]:
    """Starts the comparison and returns at once."""
    given = payload.model_dump(exclude={"trace"})
    trace = None
    if payload.trace is not None:
        trace = DemandTrace.objects.filter(pk=payload.trace).first()
        if trace is None:
            raise Problem(422, "No such trace", "Enter the id of an uploaded trace.", kind="trace-unknown")
    return 202, what_if_request(
        change=Change(**given), trace=trace, asked_by=principal_get(request).user, now=timezone.now()
    )


@router.get(
    "/capacity/what-if/{uuid:pk}",
    auth=requires(Scope.ADMIN),
    response=WhatIfOut,
    operation_id="what_if_get",
    summary="Get a what-if",
)
def what_if_get(request: HttpRequest, pk: UUID) -> WhatIf:
    """Returns the progress and, once complete, the comparison."""
    return get_object_or_404(WhatIf, pk=pk)


@router.post(
    "/capacity/what-if/{uuid:pk}/cancel",
    auth=requires(Scope.ADMIN),
    response=WhatIfOut,
    operation_id="what_if_cancel",
    summary="Cancel a what-if",
)
@idempotent
def what_if_stop(request: HttpRequest, pk: UUID) -> WhatIf:
    """Cancels a what-if that has not finished. A finished what-if does not change."""
    get_object_or_404(WhatIf, pk=pk)
    return what_if_cancel(pk=pk, actor=principal_get(request).user, now=timezone.now())


def _uploaded(file: DjangoFile[bytes], actor: User | None) -> DemandTrace:
    # At most 1 MiB at a time, because a file may have no line ends.
    lines = iter(lambda: file.readline(1 << 20), b"")
    return trace_upload(name=file.name or "", size=file.size or 0, lines=lines, actor=actor, now=timezone.now())


@require_http_methods(["GET", "POST"])
def what_if_page(request: HttpRequest) -> HttpResponse:
    """Show the what-if form, the trace upload form, and earlier what-ifs. POST starts a what-if."""
    principal = platform_admin_check(request)
    form, refusal = WhatIfForm(request.POST or None), None
    if request.method == "POST" and form.is_valid():
        try:
            trace = form.cleaned_data["trace"]
            what_if = what_if_request(change=form.change(), trace=trace, asked_by=principal.user, now=timezone.now())
            return redirect("reports:what_if_detail", pk=what_if.pk)
        except Problem as problem:
            refusal = problem
    return _asking(request, form, TraceForm(), refusal)


@require_POST
def trace_page(request: HttpRequest) -> HttpResponse:
    """Upload a trace."""
    principal = platform_admin_check(request)
    upload, refusal = TraceForm(request.POST, request.FILES), None
    if upload.is_valid():
        try:
            _uploaded(upload.cleaned_data["file"], principal.user)
            return redirect("reports:what_if")
        except Problem as problem:
            refusal = problem
    return _asking(request, WhatIfForm(), upload, refusal)


def _asking(request: HttpRequest, form: WhatIfForm, upload: TraceForm, refusal: Problem | None) -> HttpResponse:
    rows = WhatIf.objects.defer("result").select_related("asked_by")
    context = {
        "form": form,
        "upload": upload,
        "refusal": refusal,
        "traces": DemandTrace.objects.defer("hours", "seconds")[:PER_PAGE],
        "page": page_of(request, rows, ordering=("-asked_at", "-id"), size=PER_PAGE),
    }
    status = 422 if form.errors or upload.errors or refusal else 200
    return render(request, "reports/what_if.html", context, status=status)


@require_GET
@platform_admin_required
def what_if_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the progress of a what-if, then the comparison."""
    what_if = get_object_or_404(WhatIf.objects.select_related("trace", "rerating"), pk=pk)
    name = "reports/_what_if.html" if request.headers.get("HX-Request") else "reports/what_if_detail.html"
    context: dict[str, Any] = {
        "what_if": what_if,
        "change": change_sentences(what_if),
        "rows": [_row(one) for one in what_if.result or []],
        "hours": [f"{hour:02d}" for hour in range(24)],
        "currency": what_if.currency,
        "applies": what_if.finished_at is not None and is_of_the_fleet(Change(**what_if.change)),
        "api_path": f"/api/v1/capacity/what-if/{pk}",
    }
    if what_if.rerating is not None and what_if.finished_at:
        context |= shown(what_if.rerating)
    return render(request, name, context)


@require_POST
@platform_admin_required
def what_if_cancelled(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Cancel a what-if."""
    get_object_or_404(WhatIf, pk=pk)
    what_if_cancel(pk=pk, actor=principal_get(request).user, now=timezone.now())
    return redirect("reports:what_if_detail", pk=pk)


def _row(one: dict[str, Any]) -> dict[str, Any]:
    for side in ("now", "then"):
        ends = one[side]["headroom"]
        if ends is not None:
            one[side]["headroom"] = {name: end and datetime.fromisoformat(end) for name, end in ends.items()}
    before, after = one["now"]["by_hour"], one["then"]["by_hour"]
    week = [(name, before[n * 24 : n * 24 + 24], after[n * 24 : n * 24 + 24]) for n, name in enumerate(WEEKDAYS)]
    has_hours = any(value is not None for value in [*before, *after])
    return {
        "pool": one["pool"],
        "sides": [("now", one["now"]), ("changed", one["then"])],
        "week": week,
        "has_hours": has_hours,
    }


def change_sentences(what_if: WhatIf) -> list[str]:
    """Describe the change in short sentences."""
    change = Change(**what_if.change)
    found = [
        f"{pool}: {count:+,} device{pluralize(abs(count))}." for pool, count in sorted(change.devices.items()) if count
    ]
    found += [f"Site {site} fails." for site in change.failed_sites]
    if change.power_percent != 100:
        found.append(f"Power {change.power_percent} %.")
    if change.demand_factor != 1:
        found.append(f"Demand × {change.demand_factor:g}.")
    if what_if.trace is not None:
        found.append(
            f"{change.trace_pool} serves the trace {what_if.trace.name}, {change.request_seconds:g} s per request."
        )
    if change.book is not None:
        found.append(f"Usage of last month, rated with price book {change.book}.")
    return found or ["No change."]
