"""The page, the CSV file and the API of a month's revenue and margin."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET
from ninja import Field, Router, Schema

from apps.accounts.access import platform_admin_required
from apps.accounts.auth import requires
from apps.accounts.numbers import Day
from apps.accounts.roles import Scope
from apps.pricing.amounts import Code, currency_chosen
from apps.pricing.models import PriceBook
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_in_force
from apps.reports.costs import FIRST_YEAR, LAST_YEAR, rounded
from apps.reports.revenue import GROUPS, Part, Revenue, revenue, revenues

router = Router(tags=["capacity"])


class PartOut(Schema):
    """`credited` is the total of the month's credit notes for usage. `net` is `amount` less `credited`. `owned_us` and
    `cost_idle` are null for classes and customers. A cost or margin is null if it is unknown, and `unknown` says why.
    Device time is in whole microseconds. Costs and seconds are rounded half-even to 12 decimal places.
    """

    name: str
    executions: int
    amount: str
    owned_us: int | None
    ran_us: int
    ran_seconds: str
    credited: str
    net: str
    cost_ran: str | None
    cost_idle: str | None
    margin: str | None
    unknown: str


class InCurrencyOut(PartOut):
    """A month in one currency, for all pools together."""

    currency: str


class RevenueOut(Schema):
    """Amounts are in `currency`. `by_currency` has the month in each currency. Amounts in different currencies are
    never added.
    """

    month: date
    until: datetime
    currency: str
    sample: str = Field(
        description="The part of the amount in `whole` that comes from the demo's sample data. Nobody pays this part."
    )
    whole: PartOut
    by_pool: list[PartOut]
    by_class: list[PartOut]
    by_customer: list[PartOut]
    by_currency: list[InCurrencyOut]


@router.get(
    "/revenue",
    auth=requires(Scope.ADMIN),
    response=RevenueOut,
    operation_id="revenue",
    summary="Revenue and margin of a month",
)
def revenue_get(request: HttpRequest, month: Day | None = None, currency: Code | None = None) -> dict[str, Any]:
    """`month` is any day of the month (UTC) and defaults to today. `currency` defaults to the currency of the price
    book in force. Device time is counted up to `until`, which is the end of the month or the current time.
    """
    chosen = currency_chosen(currency, now=timezone.now()).code
    reports = reports_of(month)
    report = next((one for one in reports if one.currency == chosen), None) or report_in(chosen, month)
    by = {f"by_{group}": [_part(part) for part in report.parts[group]] for group in GROUPS}
    start: dict[str, Any] = {"month": report.start.date(), "until": report.until, "currency": report.currency}
    start["sample"] = decimal_text(report.sample)
    every = [{"currency": one.currency, **_part(one.whole)} for one in reports]
    return {**start, "whole": _part(report.whole), **by, "by_currency": every}


@require_GET
@platform_admin_required
def revenue_page(request: HttpRequest) -> HttpResponse:
    """Show the month in `?month=2026-11`, by default the current month. `?currency=` selects the currency, and
    `?format=csv` returns a file.
    """
    text = request.GET.get("month", "")
    month = month_read(text)
    reports = reports_of(month)
    if request.GET.get("format") == "csv":
        return _file(reports)
    report = next((one for one in reports if one.currency == request.GET.get("currency")), reports[0])
    context = {
        "report": report,
        "reports": reports,
        "groups": [(group, report.parts[group]) for group in GROUPS[1:]],
        "books": PriceBook.objects.order_by("version"),
        "idle": report.whole.idle,
        "wrong_month": bool(text) and month is None,
        "chart": _chart(report),
    }
    return render(request, "reports/revenue.html", context)


def reports_of(month: date | None) -> list[Revenue]:
    """Return the reports of a month (by default the current month), one for each currency. The first report is in the
    currency of the price book in force.
    """
    now = timezone.now()
    return revenues(month=month_instant(month, now), first=book_in_force(at=now).currency, now=now)


def report_in(currency: str, month: date | None) -> Revenue:
    """Return the report in one currency, even if the month has no usage in that currency."""
    now = timezone.now()
    return revenue(month=month_instant(month, now), currency=currency, now=now)


def month_instant(month: date | None, now: datetime) -> datetime:
    """Return the first instant of the month that contains the day `month`. Return `now` if `month` is None or in the
    year 9999.
    """
    return datetime(month.year, month.month, 1, tzinfo=UTC) if month and month.year < 9999 else now


def month_read(text: str) -> date | None:
    """Return the first day of a month such as "2026-11"; None for any other text."""
    try:
        month = date.fromisoformat(f"{text[:7]}-01")
    except ValueError:
        return None
    return month if FIRST_YEAR <= month.year < LAST_YEAR else None


def _chart(report: Revenue) -> dict[str, Any]:
    pools = report.parts["pool"]
    series = (
        ("Net revenue", [part.net for part in pools]),
        ("Cost of used time", [part.ran.cost for part in pools]),
        ("Idle cost", [part.idle_cost for part in pools]),
    )
    return {
        "unit": report.currency,
        "categories": [part.name for part in pools],
        "series": [
            {"name": name, "values": [None if one is None else float(one) for one in values]} for name, values in series
        ],
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "executions": part.executions,
        "amount": decimal_text(part.amount),
        "owned_us": None if part.owned is None else int(part.owned.seconds * 10**6),
        "ran_us": int(part.ran.seconds * 10**6),
        "ran_seconds": _text(part.ran.seconds),
        "credited": decimal_text(part.credited),
        "net": decimal_text(part.net),
        "cost_ran": _text(part.ran.cost),
        "cost_idle": _text(part.idle_cost),
        "margin": _text(part.margin),
        "unknown": part.unknown,
    }


def _text(amount: Fraction | Decimal | None) -> str | None:
    exact = rounded(amount)
    return None if exact is None else decimal_text(exact)


def _file(reports: list[Revenue]) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="takt-revenue-{reports[0].start:%Y-%m}.csv"'
    writer = csv.writer(response)
    writer.writerow(["by", *_part(reports[0].whole), "currency"])
    for report, group in product(reports, GROUPS):
        for part in report.parts[group]:
            name = f"'{part.name}" if part.name[:1] in "=+-@\t\r" else part.name
            writer.writerow([group, name, *list(_part(part).values())[1:], report.currency])
    return response
