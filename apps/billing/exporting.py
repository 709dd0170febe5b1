"""Downloads of usage and cost, as a page's link and over the API. They are streamed, whatever their length."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET
from ninja import Router

from apps.accounts.access import organisation_get
from apps.accounts.downloads import download_described
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.billing.focus import focus_csv, focus_rows
from apps.ledger.selectors import month_of

router = Router(tags=["invoices and usage"])
CSV = "text/csv; charset=utf-8"


@require_GET
def focus_file(request: HttpRequest) -> StreamingHttpResponse:
    """`?from=2026-11-01&to=2026-12-01` (UTC days, half-open), this month unless stated."""
    organisation = organisation_get(request)
    return _focus(organisation, _day(request.GET.get("from")), _day(request.GET.get("to")))


@router.get(
    "/usage/focus", operation_id="usage_focus", summary="Usage and cost in FOCUS 1.2 columns (CSV)",
    openapi_extra=download_described("text/csv"),
)  # fmt: skip
def usage_focus(request: HttpRequest, start: date | None = None, end: date | None = None) -> StreamingHttpResponse:
    """Invoices issued in [start, end) and what was used there and is on no invoice; UTC days, this month unless stated."""
    return _focus(organisation_get(request), start, end)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise Problem(422, "No such day", "Write days as 2026-11-30.") from None


def _focus(organisation: Organisation, first: date | None, after: date | None) -> StreamingHttpResponse:
    start, end = month_of(timezone.now())
    start = _midnight(first) if first else start
    end = _midnight(after) if after else max(end, start + timedelta(days=1))
    if end <= start:
        raise Problem(422, "Empty period", "The period must end after it starts.")
    rows = focus_rows(organisation=organisation, start=start, end=end)
    response = StreamingHttpResponse(focus_csv(rows), content_type=CSV)
    response["Content-Disposition"] = f'attachment; filename="takt-focus-{start:%Y-%m-%d}.csv"'
    return response


def _midnight(day: date) -> datetime:
    if day.year >= 9998:  # the day after must exist
        raise Problem(422, "No such day", "Choose a day before the year 9998.")
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
