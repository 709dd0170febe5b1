"""The pages and the API for rating a month again with another price book."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from ninja import Router, Schema

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.broker import task_send_on_commit
from apps.accounts.idempotency import idempotent
from apps.accounts.models import User
from apps.accounts.numbers import Day
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.pricing.models import PriceBook
from apps.reports.models import Rerating
from apps.reports.rerating import GROUPS, parts_of, rerating_request
from apps.reports.revenue_pages import month_instant, month_read
from apps.reports.tasks import rerate

router = Router(tags=["capacity"])
SHOWN = ("customer", "pool", "class")


class RatedPartOut(Schema):
    """`amount` is the amount charged. `other` is the amount for the same usage at the other book's prices. `unpriced`
    is the number of usage rows that the other book does not price; `other` excludes these rows.
    """

    name: str
    executions: int
    amount: str
    other: str
    unpriced: int


class RatedOut(Schema):
    whole: RatedPartOut
    by_pool: list[RatedPartOut]
    by_class: list[RatedPartOut]
    by_customer: list[RatedPartOut]


class ReratingOut(Schema):
    """`result` is null until `finished_at` is set. The progress is `rows_done` out of `rows_total`."""

    id: UUID
    month: date
    until: datetime
    book: int
    currency: str
    rows_total: int
    rows_done: int
    finished_at: datetime | None
    result: RatedOut | None

    @staticmethod
    def resolve_month(rerating: Rerating) -> date:
        return rerating.start.date()

    @staticmethod
    def resolve_book(rerating: Rerating) -> int:
        return rerating.version

    @staticmethod
    def resolve_result(rerating: Rerating) -> dict[str, Any] | None:
        if rerating.result is None:
            return None
        return {"whole": rerating.result["whole"], **{f"by_{group}": rerating.result[group] for group in GROUPS}}


class RatingIn(RequestBody):
    """`book` is the version of a published price book. `month` is any day of the month (UTC) and defaults to today."""

    book: int
    month: Day | None = None


@router.post(
    "/revenue/ratings",
    auth=requires(Scope.ADMIN),
    response={202: ReratingOut},
    operation_id="rerating_create",
    summary="Rate a month's usage with another price book",
)
@idempotent
def rerating_create(request: HttpRequest, payload: RatingIn) -> tuple[int, Rerating]:
    """Starts the re-rating and returns at once."""
    return 202, rerating_begin(_book(payload.book), payload.month, principal_get(request).user)


@router.get(
    "/revenue/ratings/{uuid:pk}",
    auth=requires(Scope.ADMIN),
    response=ReratingOut,
    operation_id="rerating_get",
    summary="Get a re-rating",
)
def rerating_get(request: HttpRequest, pk: UUID) -> Rerating:
    """Returns the progress and, when the re-rating is finished, the result."""
    return get_object_or_404(Rerating, pk=pk)


@require_POST
@platform_admin_required
def rerating_new(request: HttpRequest) -> HttpResponse:
    """Start a re-rating of a month with a published book."""
    text = request.POST.get("book", "")
    book = _book(int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0)
    month = month_read(request.POST.get("month", ""))
    if month is None:
        messages.error(request, "Nothing was rated. Choose a month such as 2026-11.")
        return redirect("reports:revenue")
    rerating = rerating_begin(book, month, principal_get(request).user)
    return redirect("reports:rerating", pk=rerating.pk)


@require_GET
@platform_admin_required
def rerating_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the progress of a re-rating, then the result."""
    rerating = get_object_or_404(Rerating, pk=pk)
    name = "reports/_rerating.html" if request.headers.get("HX-Request") else "reports/rerating.html"
    return render(request, name, {**shown(rerating), "api_path": f"/api/v1/revenue/ratings/{pk}"})


def shown(rerating: Rerating) -> dict[str, Any]:
    """Return the template context of a re-rating."""
    parts = parts_of(rerating)
    return {
        "rerating": rerating,
        "version": str(rerating.version),
        "parts": parts,
        "groups": [(one, parts[one]) for one in SHOWN],
    }


def rerating_begin(book: PriceBook, month: date | None, user: User | None) -> Rerating:
    """Create a re-rating and queue it for a worker."""
    now = timezone.now()
    with transaction.atomic():
        rerating = rerating_request(book=book, month=month_instant(month, now), asked_by=user, now=now)
        task_send_on_commit(rerate.name, queue="books", pk=str(rerating.pk))
    return rerating


def _book(version: int) -> PriceBook:
    book = PriceBook.objects.filter(version=version).first() if 0 < version < 2**31 else None
    if book is None:
        raise Problem(
            422, "No such price book", "Choose the version of a published price book.", kind="price-book-unknown"
        )
    return book
