"""The common parts of all reports over a period."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from django.http import HttpResponse

from apps.pricing.rating import decimal_text
from apps.reports.costs import rounded

DAY = timedelta(days=1)
PAST_MOST = 366  # days of a report about the past
AHEAD_MOST = 62  # days of a report about the future, as far as quotes reach
PAST_USUAL, AHEAD_USUAL = 28, 7

Kind = Literal["text", "share", "seconds", "count", "money", "instant", "day", "number"]
Value = str | int | Fraction | Decimal | datetime | None


class Column(NamedTuple):
    """A column of a report. Seconds and shares are exact fractions."""

    name: str
    label: str
    kind: Kind = "text"


class Metric(NamedTuple):
    """A figure shown above the table."""

    label: str
    value: Value
    kind: Kind
    note: str = ""


class Heat(NamedTuple):
    """A heat map of shares, with a row for each name and a column for each heading. A share is None if unknown."""

    title: str
    corner: str
    heads: list[str]
    rows: list[tuple[str, list[Fraction | None]]]
    caption: str


@dataclass(frozen=True)
class ReportData:
    """The result of a report. `total` is the sum of all rows, `notes` are sentences below the table, and `drawn` is the
    kind of chart.
    """

    columns: Sequence[Column]
    rows: list[tuple[Value, ...]]
    metrics: list[Metric] = field(default_factory=list)
    total: tuple[Value, ...] | None = None
    notes: list[str] = field(default_factory=list)
    chart: dict[str, Any] | None = None
    drawn: str = "bar"
    currency: str = ""
    heat: Heat | None = None
    views: list[tuple[str, str]] = field(default_factory=list)
    view: str = ""


@dataclass(frozen=True)
class Period:
    """The days from `first` to `last` (UTC), inclusive. `notice` explains any difference from the requested period."""

    first: date
    last: date
    notice: str = ""

    @property
    def start(self) -> datetime:
        return datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return datetime(self.last.year, self.last.month, self.last.day, tzinfo=UTC) + DAY


class ReportRequest(NamedTuple):
    """A request for a report: the period, the current time, the currency of costs, and the chosen view."""

    period: Period
    now: datetime
    currency: str
    view: str = ""

    @property
    def until(self) -> datetime:
        """The end of the elapsed part of the period."""
        return max(self.period.start, min(self.period.end, self.now))


@dataclass(frozen=True)
class Report:
    """A report in the index. `line` is the question that the report answers. `empty` and `link` are shown if there is
    no data.
    """

    slug: str
    title: str
    line: str
    make: Callable[[ReportRequest], ReportData]
    empty: str
    link: tuple[str, str]
    is_ahead: bool = False


def period_read(first: str, last: str, *, now: datetime, is_ahead: bool) -> Period:
    """Parse two dates and return the period. If the dates are invalid, return the default period with a notice."""
    usual = _usual(now.astimezone(UTC).date(), is_ahead)
    if not first and not last:
        return usual
    try:
        begin, end = _day(first), _day(last)
    except ValueError:
        return Period(usual.first, usual.last, "Enter the date in the form 2026-11-30. The default period is shown.")
    width = usual.last - usual.first
    try:
        begin = begin or (end or usual.last) - width
        end = end or begin + width
        following = end + DAY
    except OverflowError:
        return Period(usual.first, usual.last, "The period is outside the calendar. The default period is shown.")
    most = AHEAD_MOST if is_ahead else PAST_MOST
    if end < begin:
        return Period(usual.first, usual.last, "The last day is before the first day. The default period is shown.")
    if (following - begin).days > most:
        return Period(begin, begin + timedelta(days=most - 1), f"A report covers at most {most} days.")
    return Period(begin, end)


def _day(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


def _usual(today: date, is_ahead: bool) -> Period:
    if is_ahead:
        return Period(today, today + timedelta(days=AHEAD_USUAL - 1))
    return Period(today - timedelta(days=PAST_USUAL - 1), today)


def exported(value: Value) -> str | int | None:
    """Return a value in the form used in files; None if the value is unknown."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Fraction | Decimal):
        exact = rounded(value)
        return None if exact is None else decimal_text(exact)
    return value


def as_json(report: Report, request: ReportRequest, data: ReportData) -> dict[str, Any]:
    """Return the report as JSON data."""
    return {
        "report": report.slug,
        "title": report.title,
        "from": request.period.first.isoformat(),
        "to": request.period.last.isoformat(),
        "currency": data.currency,
        "columns": [column._asdict() for column in data.columns],
        "rows": [{c.name: exported(v) for c, v in zip(data.columns, row, strict=True)} for row in data.rows],
        "notes": data.notes,
    }


def as_csv(report: Report, request: ReportRequest, data: ReportData) -> HttpResponse:
    """Return the report as a CSV file. An empty cell means that the value is unknown."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    name = f"{report.slug}-{request.period.first}-{request.period.last}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    out = csv.writer(response)
    out.writerow([column.name for column in data.columns])
    out.writerows([exported(value) for value in row] for row in data.rows)
    return response


def ratio(part: Fraction | int, whole: Fraction | int) -> Fraction | None:
    """Return part / whole; None if `whole` is 0."""
    return Fraction(part) / Fraction(whole) if whole else None


def whole(value: Value) -> int:
    """Return a count from a row; 0 if the count is unknown."""
    return value if isinstance(value, int) else 0


def hours(seconds: Fraction) -> float:
    """Convert seconds to hours, for charts."""
    return float(seconds / 3600)
