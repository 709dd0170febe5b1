"""Downloads of usage and cost, for pages and the API. Downloads are streamed, so their length is not limited."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from tempfile import TemporaryFile
from typing import Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET
from ninja import Router

from apps.accounts.access import organisation_get
from apps.accounts.downloads import download_described
from apps.accounts.models import Organisation
from apps.accounts.numbers import Day
from apps.accounts.problems import Problem
from apps.invoicing.focus import focus_rows
from apps.invoicing.focus_columns import Row
from apps.invoicing.focus_files import focus_csv, focus_parquet
from apps.ledger.selectors import month_of

router = Router(tags=["invoices and usage"])
PARQUET = "application/vnd.apache.parquet"
TYPES = {"csv": "text/csv; charset=utf-8", "parquet": PARQUET}
CHUNK = 1 << 16


@require_GET
def focus_file(request: HttpRequest, kind: str = "csv") -> StreamingHttpResponse:
    """Download the cost export for a period such as `?from=2026-11-01&to=2026-12-01`. `kind` is csv or parquet.

    The days are in UTC, and the last day is excluded. The default is this month.
    """
    organisation = organisation_get(request)
    return _focus(organisation, _day(request.GET.get("from")), _day(request.GET.get("to")), kind)


@router.get(
    "/usage/focus",
    operation_id="usage_focus",
    summary="Usage and cost in FOCUS 1.2 columns (CSV or Parquet)",
    openapi_extra=download_described("text/csv", PARQUET),
)
def usage_focus(
    request: HttpRequest, start: Day | None = None, end: Day | None = None, kind: Literal["csv", "parquet"] = "csv"
) -> StreamingHttpResponse:
    """Downloads the invoices and credit notes issued in [start, end), and the usage in this period that is not invoiced
    yet.

    `start` and `end` are UTC days. The default is this month. Parquet files contain amounts as decimals with 76 digits.
    """
    return _focus(organisation_get(request), start, end, kind)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise Problem(422, "Invalid day", "Enter the date in the form 2026-11-30.", kind="day-unknown") from None


def _focus(organisation: Organisation, first: date | None, after: date | None, kind: str) -> StreamingHttpResponse:
    if kind not in TYPES:
        raise Problem(
            404, "Unknown file type", f"The export is available as {' or '.join(TYPES)}.", kind="file-unknown"
        )
    start, end = month_of(timezone.now())
    start = _midnight(first) if first else start
    end = _midnight(after) if after else max(end, start + timedelta(days=1))
    if end <= start:
        raise Problem(422, "Empty period", "The period must end after it starts.", kind="period-empty")
    rows = focus_rows(organisation=organisation, start=start, end=end)
    chunks = focus_csv(rows) if kind == "csv" else _parquet(rows)
    response = StreamingHttpResponse(chunks, content_type=TYPES[kind])
    name = f"takt-focus-{start:%Y-%m-%d}{organisation.file_mark(start)}.{kind}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _parquet(rows: Iterator[Row]) -> Iterator[bytes]:
    # The file is first written to disk, because its index is at the end.
    with TemporaryFile() as file:
        focus_parquet(rows, file)
        file.seek(0)
        while chunk := file.read(CHUNK):
            yield chunk


def _midnight(day: date) -> datetime:
    if day.year >= 9998:  # the day after must exist
        raise Problem(422, "Invalid day", "Choose a day before the year 9998.", kind="day-unknown")
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
