"""The usage page and its CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Sum
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import organisation_get
from apps.accounts.models import Organisation
from apps.invoicing.selectors import months_so_far
from apps.ledger.selectors import executions_sum
from apps.portal.charts import usage_chart
from apps.portal.forms import GROUPS, UsageForm
from apps.portal.selectors import excluded
from apps.portal.usage import UsageQuery, group_names, usage_filtered, usage_report
from apps.portal.views import newest_usage
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_in_force, document_of

FILE_COLUMNS = (
    "day",
    "project",
    "model",
    "class",
    "api_token",
    "executions",
    "counted_operations",
    "billed_operations",
    "amount",
    "currency",
)


class _Line:
    # A file for `csv.writer`: `write` returns the row, so that rows can be streamed.
    def write(self, text: str) -> str:
        return text


@require_GET
def usage(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Show usage by day and group. `format=csv` downloads the figures."""
    organisation, now = organisation_get(request), timezone.now()
    book = book_in_force(at=now)
    form = UsageForm(request.GET, organisation=organisation, currency=book.currency, now=now)
    query = form.query()
    if request.GET.get("format") == "csv" and form.is_valid():
        return _csv_file(organisation, query, request.GET.get("currency", ""))
    report = usage_report(organisation=organisation, query=query, book=document_of(book))
    start, end = query.interval(organisation.time_zone)
    csv_parameters = request.GET.copy()
    csv_parameters["format"] = "csv"
    context = {
        "form": form,
        "report": report,
        "chart": usage_chart(report),
        "group": GROUPS[query.group],
        "groups": _links(request, "group", GROUPS),
        "currency": query.currency,
        "csv": csv_parameters.urlencode(),
        "api_path": api_path(request),
        "now": now,
        "updated_at": newest_usage(months_so_far(organisation=organisation, currencies=form.currencies, now=now)),
        "others": [code for code in form.currencies if code != query.currency],
        "excluded": excluded(organisation=organisation, start=start, end=end),
    }
    return render(request, "portal/usage.html", context)


def _links(request: HttpRequest, name: str, choices: dict[str, str]) -> list[tuple[str, str]]:
    query = request.GET.copy()
    links = []
    for value, label in choices.items():
        query[name] = value
        links.append((f"?{query.urlencode()}", label))
    return links


def api_path(request: HttpRequest) -> str:
    """Return the URL of the API request for the same figures."""
    query = request.GET.copy()
    query.pop("format", None)
    return f"/api/v1/usage/summary?{query.urlencode()}".rstrip("?")


def _csv_file(organisation: Organisation, query: UsageQuery, currency: str) -> StreamingHttpResponse:
    rows = csv.writer(_Line())
    lines = (rows.writerow(row) for row in _csv_rows(organisation, query, currency))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    mark = organisation.file_mark(query.interval(organisation.time_zone)[0])
    response["Content-Disposition"] = f'attachment; filename="takt-usage-{query.first}-{query.last}{mark}.csv"'
    return response


def _csv_rows(organisation: Organisation, query: UsageQuery, currency: str) -> Iterator[tuple[Any, ...]]:
    yield FILE_COLUMNS
    book = document_of(book_in_force(at=timezone.now()))
    project, key = (group_names(organisation, group, book) for group in ("project", "key"))
    columns = ("day", "project_id", "model_name", "klass", "token_id", "currency")
    chosen = usage_filtered(organisation, query).filter(**({"currency": currency} if currency else {}))
    rows = chosen.annotate(day=TruncDate("recorded_at", tzinfo=ZoneInfo(organisation.time_zone)))
    sums = (
        rows.order_by()
        .values(*columns)
        .annotate(q=executions_sum(), o=Sum("operations"), b=Sum("billed_operations"), a=Sum("amount"))
        .order_by(*columns)
    )
    for row in sums.iterator():
        names = (project(row["project_id"]), row["model_name"], row["klass"], key(row["token_id"]))
        figures = (row["q"], row["o"], row["b"], decimal_text(row["a"]), row["currency"])
        yield (row["day"], *(text_cell(name) for name in names), *figures)


def text_cell(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would read as a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
