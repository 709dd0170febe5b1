"""The pages and the API of reconciliations."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods
from ninja import Router, Schema

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.auth import requires
from apps.accounts.broker import task_send_on_commit
from apps.accounts.idempotency import idempotent
from apps.accounts.models import User
from apps.accounts.paging import Cursor, page_of, paginate
from apps.accounts.roles import Scope
from apps.ledger.models import UsageRow
from apps.reports.models import ReconciliationRow, ReconciliationRun
from apps.reports.reconciling import reconciliation_request
from apps.reports.tasks import reconcile

router = Router(tags=["reconciliation"])
PER_PAGE = 25


class RunOut(Schema):
    """`finished_at` is null until the run is finished. `differences` is normally 0."""

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    organisations: int
    differences: int
    stripe: dict[str, Any] | None


class StageOut(Schema):
    name: str
    rows: int
    executions: int | None
    amounts: dict[str, str] | None


class RowOut(Schema):
    organisation_id: UUID
    stages: list[StageOut]
    differences: list[str]
    compared_at: datetime


@router.get(
    "/reconciliations",
    auth=requires(Scope.ADMIN),
    response=list[RunOut],
    operation_id="reconciliation_list",
    summary="Reconciliations, newest first",
)
@paginate(Cursor, ordering=("-started_at", "id"))
def reconciliation_list(request: HttpRequest) -> QuerySet[ReconciliationRun]:
    """A run starts every day and on request."""
    return ReconciliationRun.objects.all()


@router.post(
    "/reconciliations",
    auth=requires(Scope.ADMIN),
    response={202: RunOut},
    operation_id="reconciliation_create",
    summary="Start a reconciliation",
)
@idempotent
def reconciliation_create(request: HttpRequest) -> tuple[int, ReconciliationRun]:
    """Starts a run and returns at once. The run is finished when `finished_at` is set."""
    return 202, _ask(principal_get(request).user)


@router.get(
    "/reconciliations/{uuid:pk}",
    auth=requires(Scope.ADMIN),
    response=RunOut,
    operation_id="reconciliation_get",
    summary="One reconciliation",
)
def reconciliation_get(request: HttpRequest, pk: UUID) -> ReconciliationRun:
    """Returns the state of the run and the number of differences."""
    return get_object_or_404(ReconciliationRun, pk=pk)


@router.get(
    "/reconciliations/{uuid:pk}/organisations",
    auth=requires(Scope.ADMIN),
    response=list[RowOut],
    operation_id="reconciliation_rows",
    summary="Results of a reconciliation by organisation",
)
@paginate(Cursor, ordering=("id",))
def reconciliation_rows(request: HttpRequest, pk: UUID) -> QuerySet[ReconciliationRow]:
    """Returns the rows, executions and amounts of each stage, and a sentence for each difference."""
    return get_object_or_404(ReconciliationRun, pk=pk).rows.all()


def _ask(user: User | None) -> ReconciliationRun:
    run = reconciliation_request(asked_by=user, now=timezone.now())
    task_send_on_commit(reconcile.name, queue="books", run_id=str(run.id))
    return run


@require_http_methods(["GET", "POST"])
@platform_admin_required
def run_list(request: HttpRequest) -> HttpResponse:
    """List the runs, newest first; a POST starts a run."""
    if request.method == "POST":
        run = _ask(principal_get(request).user)
        messages.success(request, "The reconciliation was started. Reload this page in a few seconds.")
        return redirect("reports:reconciliation", pk=run.id)
    page = page_of(
        request, ReconciliationRun.objects.select_related("asked_by"), ordering=("-started_at", "-id"), size=PER_PAGE
    )
    return render(request, "reports/reconciliation_list.html", {"page": page})


@require_GET
@platform_admin_required
def run_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show one run. Organisations with differences come first."""
    run = get_object_or_404(ReconciliationRun, pk=pk)
    rows = run.rows.select_related("organisation").order_by("organisation__name", "id")
    wrong = list(rows.exclude(differences=[])[:PER_PAGE])
    page = page_of(request, rows, ordering=("organisation__name", "id"), size=PER_PAGE)
    context = {"run": run, "wrong": wrong, "page": page, "api_path": f"/api/v1/reconciliations/{pk}/organisations"}
    return render(request, "reports/reconciliation.html", context)


@require_GET
@platform_admin_required
def run_rows(request: HttpRequest, pk: UUID, organisation: UUID) -> HttpResponse:
    """Show one organisation in a run: stages, differences, and usage rows with their transactions and invoices."""
    row = get_object_or_404(
        ReconciliationRow.objects.select_related("run", "organisation"), run_id=pk, organisation_id=organisation
    )
    usages = UsageRow.objects.filter(organisation_id=organisation, created_at__lte=row.compared_at)
    usages = usages.select_related("transaction", "invoiced__line__invoice")
    page = page_of(request, usages, ordering=("-created_at", "-id"), size=PER_PAGE)
    return render(request, "reports/reconciliation_rows.html", {"row": row, "page": page})
