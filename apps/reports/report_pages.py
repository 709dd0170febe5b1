"""Reports over a period, as pages, files and API responses."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET
from ninja import Router, Schema

from apps.accounts.access import platform_admin_required
from apps.accounts.auth import requires
from apps.accounts.numbers import Day
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.pricing.selectors import book_in_force
from apps.reports.period_reports.core import Report, ReportData, ReportRequest, as_csv, as_json, period_read
from apps.reports.period_reports.index import ELSEWHERE, REPORTS

router = Router(tags=["reports"])
SHOWN = 500  # rows on a page; files have all rows


class ReportLineOut(Schema):
    """A report and the question that it answers."""

    report: str
    title: str
    line: str


class ColumnOut(Schema):
    """`kind` is text, share (1 is 100 %), seconds, count, money (in the report's currency), instant or day."""

    name: str
    label: str
    kind: str


class ReportOut(Schema):
    """The report covers the days from `first` to `last` (UTC), inclusive. Each row maps column names to values.
    Decimals are text with at most 12 decimal places; null means unknown.
    """

    report: str
    title: str
    first: str
    last: str
    currency: str
    columns: list[ColumnOut]
    rows: list[dict[str, str | int | None]]
    notes: list[str]


@router.get(
    "/reports",
    auth=requires(Scope.ADMIN),
    response=list[ReportLineOut],
    operation_id="report_list",
    summary="The administrator's reports",
)
def report_all(request: HttpRequest) -> list[dict[str, Any]]:
    """Lists the reports, with the question that each report answers."""
    return [{"report": one.slug, "title": one.title, "line": one.line} for one in REPORTS.values()]


@router.get(
    "/reports/{slug}",
    auth=requires(Scope.ADMIN),
    response=ReportOut,
    operation_id="report_get",
    summary="One report over a period",
)
def report_get(request: HttpRequest, slug: str, first: Day | None = None, last: Day | None = None) -> dict[str, Any]:
    """The period defaults to the last 28 days, and may cover at most 366 days. The report `gaps` covers the next 7 days
    by default, and at most 62 days.
    """
    report = REPORTS.get(slug)
    if report is None:
        detail = f"There is no report '{slug}'. Choose one of: {', '.join(REPORTS)}."
        raise Problem(404, "No such report", detail, kind="report-unknown")
    wanted = _report_request(report, first.isoformat() if first else "", last.isoformat() if last else "", "")
    if wanted.period.notice:
        raise Problem(422, "Impossible period", wanted.period.notice, kind="report-period")
    data = as_json(report, wanted, report.make(wanted))
    return {**data, "first": data["from"], "last": data["to"]}


@require_GET
@platform_admin_required
def report_list(request: HttpRequest) -> HttpResponse:
    """List all reports."""
    context = {"reports": REPORTS.values(), "elsewhere": ELSEWHERE}
    return render(request, "reports/report_list.html", context)


@require_GET
@platform_admin_required
def report_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a report for the period from `?from=` to `?to=`. `?format=csv` or `?format=json` returns a file."""
    report = REPORTS.get(slug)
    if report is None:
        raise Http404
    wanted = _report_request(
        report, request.GET.get("from", ""), request.GET.get("to", ""), request.GET.get("view", "")
    )
    data = report.make(wanted)
    if request.GET.get("format") == "csv":
        return as_csv(report, wanted, data)
    if request.GET.get("format") == "json":
        response = JsonResponse(as_json(report, wanted, data), json_dumps_params={"indent": 1})
        response["Content-Disposition"] = (
            f'attachment; filename="{slug}-{wanted.period.first}-{wanted.period.last}.json"'
        )
        return response
    period = urlencode({"from": wanted.period.first, "to": wanted.period.last})
    context = {
        "report": report,
        "wanted": wanted,
        "data": data,
        "period": period,
        "rows": [list(zip(data.columns, row, strict=True)) for row in data.rows[:SHOWN]],
        "more": len(data.rows) - SHOWN,
        "tabs": _tabs(data, period),
        "current": dict(data.views).get(data.view, ""),
        "height": _height(data),
        "api_path": f"/api/v1/reports/{slug}?first={wanted.period.first}&last={wanted.period.last}",
    }
    return render(request, "reports/report.html", context)


def _height(data: ReportData) -> str:
    bars = len(data.chart["categories"]) if data.chart and data.chart.get("horizontal") else 0
    return "sm" if 0 < bars <= 4 else "lg" if bars > 10 else "md"


def _tabs(data: ReportData, period: str) -> list[tuple[str, str]]:
    return [(f"?{period}&view={name}", label) for name, label in data.views]


def _report_request(report: Report, first: str, last: str, view: str) -> ReportRequest:
    now = timezone.now()
    try:
        currency = book_in_force(at=now).currency
    except Problem:  # without a price book there is no currency
        currency = ""
    return ReportRequest(period_read(first, last, now=now, is_ahead=report.is_ahead), now, currency, view)
