"""Revenue of a month: the administrator's page, its CSV, and the API."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET
from ninja import Router, Schema

from apps.accounts.access import platform_admin_required
from apps.accounts.auth import requires
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.pricing.models import PriceBook
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_in_force
from apps.reports.revenue import GROUPS, Part, Revenue, revenue

router = Router(tags=["capacity"])


class PartOut(Schema):
    name: str
    executions: int
    amount: str
    other_book: str | None
    unpriced_rows: int


class PoolUseOut(Schema):
    pool: str
    share_used: str
    amount: str


class RevenueOut(Schema):
    month: date
    currency: str
    other_book: int | None
    whole: PartOut
    by_pool: list[PartOut]
    by_class: list[PartOut]
    by_customer: list[PartOut]
    pools: list[PoolUseOut]


@router.get(
    "/revenue", auth=requires(Scope.ADMIN), response=RevenueOut, operation_id="revenue", summary="Revenue of a month"
)
def revenue_get(request: HttpRequest, month: date | None = None, book: int | None = None) -> dict[str, Any]:
    """Any day of the month (UTC); with `book` (a version) every usage row is rated again by that book."""
    report = _report(month, book)
    by = {f"by_{group}": [_part(part) for part in report.parts[group]] for group in GROUPS}
    pools = [
        {"pool": one.pool, "share_used": f"{float(one.share):.6f}", "amount": decimal_text(one.amount)}
        for one in report.pools
    ]
    other = report.book.version if report.book else None
    start = {"month": report.start.date(), "currency": report.currency, "other_book": other}
    return {**start, "whole": _part(report.whole), **by, "pools": pools}


@require_GET
@platform_admin_required
def revenue_page(request: HttpRequest) -> HttpResponse:
    """`?month=2026-11`, this one unless stated; `&book=2` rates it again; `&format=csv` is the file."""
    version = request.GET.get("book", "")
    known = PriceBook.objects.filter(version=int(version)) if version.isascii() and version[:9].isdigit() else None
    report = _report(_month(request.GET.get("month", "")), known[0].version if known else None)
    if request.GET.get("format") == "csv":
        return _file(report)
    categories = [part.name for part in report.parts["pool"]]
    values = [float(part.amount) for part in report.parts["pool"]]
    context = {
        "report": report,
        "groups": [(group, report.parts[group]) for group in GROUPS],
        "books": PriceBook.objects.order_by("version"),
        "chart": {"unit": report.currency, "categories": categories, "series": [{"name": "Revenue", "values": values}]},
    }
    return render(request, "reports/revenue.html", context)


def _report(month: date | None, version: int | None) -> Revenue:
    now = timezone.now()
    at = datetime(month.year, month.month, 1, tzinfo=UTC) if month and month.year < 9999 else now
    book = None
    if version is not None:
        book = PriceBook.objects.filter(version=version).first() if 0 < version < 2**31 else None
        if book is None:
            raise Problem(422, "No such price book", "Name the version of a published price book.")
    return revenue(month=at, currency=book_in_force(at=now).currency, book=book)


def _month(text: str) -> date | None:
    try:
        return date.fromisoformat(f"{text[:7]}-01")
    except ValueError:
        return None


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name, "executions": part.executions, "amount": decimal_text(part.amount),
        "other_book": None if part.other is None else decimal_text(part.other), "unpriced_rows": part.unpriced,
    }  # fmt: skip


def _file(report: Revenue) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="takt-revenue-{report.start:%Y-%m}.csv"'
    writer = csv.writer(response)
    writer.writerow(["by", "name", "executions", "amount", "other_book", "unpriced_rows", "currency"])
    for group in GROUPS:
        for part in report.parts[group]:
            name = f"'{part.name}" if part.name[:1] in "=+-@\t\r" else part.name
            writer.writerow([group, name, *list(_part(part).values())[1:], report.currency])
    return response
