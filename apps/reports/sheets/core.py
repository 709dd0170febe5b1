"""What a report is: a period in whole days, columns with their units, rows of exact values, a drawing, and what to say."""

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
PAST_MOST = 366  # days of a report of the past
AHEAD_MOST = 62  # days of one of what is to come: as far as quotes reach
PAST_USUAL, AHEAD_USUAL = 28, 7

Kind = Literal["text", "share", "seconds", "count", "money", "instant", "day", "number"]
Value = str | int | Fraction | Decimal | datetime | None


class Column(NamedTuple):
    """A column: its name in files, its heading, its unit. Seconds and shares are exact fractions."""

    name: str
    label: str
    kind: Kind = "text"


class Metric(NamedTuple):
    """A figure above the table."""

    label: str
    value: Value
    kind: Kind
    note: str = ""


class Heat(NamedTuple):
    """A table of shares: one row for each name, one column for each head; None where nothing is known."""

    title: str
    corner: str
    heads: list[str]
    rows: list[tuple[str, list[Fraction | None]]]
    caption: str


@dataclass(frozen=True)
class Sheet:
    """A report's answer. `total` is a row for all together; `notes` are sentences below the table; `chart` is what
    static/js/charts.js draws, of the kind `drawn`."""

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
    """Days [first, last], both included, in UTC. `notice` says what was wrong with those that were asked for."""

    first: date
    last: date
    notice: str = ""

    @property
    def start(self) -> datetime:
        """The first instant."""
        return datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first instant after it."""
        return datetime(self.last.year, self.last.month, self.last.day, tzinfo=UTC) + DAY


class Asked(NamedTuple):
    """What a report is made from: the period, this moment, the currency of costs, and the view that was chosen."""

    period: Period
    now: datetime
    currency: str
    view: str = ""

    @property
    def until(self) -> datetime:
        """The end of the period, or now: what has passed of it."""
        return max(self.period.start, min(self.period.end, self.now))


@dataclass(frozen=True)
class Report:
    """One report of the index. `line` says what it answers; `empty` what to do where there is nothing yet, with a link."""

    slug: str
    title: str
    line: str
    make: Callable[[Asked], Sheet]
    empty: str
    link: tuple[str, str]
    is_ahead: bool = False


def period_read(first: str, last: str, *, now: datetime, is_ahead: bool) -> Period:
    """The days that an address names; the usual ones where it names none, or nonsense, which is said."""
    usual = _usual(now.astimezone(UTC).date(), is_ahead)
    if not first and not last:
        return usual
    try:
        begin = date.fromisoformat(first) if first else None
        end = date.fromisoformat(last) if last else None
    except ValueError:
        return Period(usual.first, usual.last, "Write days as 2026-11-24; the usual period is shown.")
    width = timedelta(days=(AHEAD_USUAL if is_ahead else PAST_USUAL) - 1)
    try:
        begin = begin or (end or usual.last) - width
        end = end or begin + width
        following = end + DAY
    except OverflowError:
        return Period(usual.first, usual.last, "That day is beyond the calendar; the usual period is shown.")
    most = AHEAD_MOST if is_ahead else PAST_MOST
    if end < begin:
        return Period(usual.first, usual.last, "The last day is before the first; the usual period is shown.")
    if (following - begin).days > most:
        return Period(begin, begin + timedelta(days=most - 1), f"A report reaches over at most {most} days.")
    return Period(begin, end)


def _usual(today: date, is_ahead: bool) -> Period:
    if is_ahead:
        return Period(today, today + timedelta(days=AHEAD_USUAL - 1))
    return Period(today - timedelta(days=PAST_USUAL - 1), today)


def told(value: Value) -> str | int | None:
    """A value as files hold it: decimals as texts with at most 12 places, instants with their zone, None for unknown."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, Fraction | Decimal):
        exact = rounded(value)
        return None if exact is None else decimal_text(exact)
    return value


def as_json(report: Report, asked: Asked, sheet: Sheet) -> dict[str, Any]:
    """The report as data: each row by the names of its columns."""
    return {
        "report": report.slug,
        "title": report.title,
        "from": asked.period.first.isoformat(),
        "to": asked.period.last.isoformat(),
        "currency": sheet.currency,
        "columns": [column._asdict() for column in sheet.columns],
        "rows": [{c.name: told(v) for c, v in zip(sheet.columns, row, strict=True)} for row in sheet.rows],
        "notes": sheet.notes,
    }


def as_csv(report: Report, asked: Asked, sheet: Sheet) -> HttpResponse:
    """The same rows as a file; an empty cell is not known."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    name = f"{report.slug}-{asked.period.first}-{asked.period.last}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    out = csv.writer(response)
    out.writerow([column.name for column in sheet.columns])
    out.writerows([told(value) for value in row] for row in sheet.rows)
    return response


def ratio(part: Fraction | int, whole: Fraction | int) -> Fraction | None:
    """A share; None where there is nothing to take a share of."""
    return Fraction(part) / Fraction(whole) if whole else None


def whole(value: Value) -> int:
    """A count of a row; 0 where it is not known."""
    return value if isinstance(value, int) else 0


def hours(seconds: Fraction) -> float:
    """Seconds as hours, as a chart draws them."""
    return float(seconds / 3600)
