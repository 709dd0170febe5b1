"""The capacity page for administrators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import platform_admin_required
from apps.accounts.problems import Problem
from apps.pricing.selectors import book_in_force
from apps.reports import selectors
from apps.reports.costs import FIRST_YEAR, LAST_YEAR
from apps.reports.margin import DeviceTime, Time, device_time, total


@require_GET
@platform_admin_required
def capacity(request: HttpRequest) -> HttpResponse:
    """Show the capacity report of one UTC day; the default is today."""
    now = timezone.now()
    text = request.GET.get("day", "")
    report = selectors.capacity(day=day_of(text, now=now), now=now)
    context = {
        "report": report,
        "chart": chart_of(report),
        "heat_steps": range(selectors.HEAT_STEPS + 1),
        "cost": idle_cost(report.day, now=now),
        "wrong_day": bool(text) and f"{report.day:%Y-%m-%d}" != text,
    }
    return render(request, "reports/capacity.html", context)


def day_of(text: str, *, now: datetime) -> datetime:
    """Parse the date of a UTC day and return the start of the day. An invalid date gives the start of today."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        day = None
    if day is None or not FIRST_YEAR <= day.year < LAST_YEAR:
        return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day


class IdleCost(NamedTuple):
    """The cost of idle device time. `amount` is None if a cost is unknown."""

    amount: Fraction | None
    currency: str
    unknown: str


def idle_cost(day: datetime, *, now: datetime) -> IdleCost | None:
    """Return the cost of idle device time on a UTC day up to `now`. Return None if no price book is in force."""
    try:
        currency = book_in_force(at=now).currency
    except Problem:
        return None
    end = max(day, min(day + timedelta(days=1), now))
    time = device_time(start=day, end=end, currency=currency)
    owned, ran = (total(part.cost for part in parts) for parts in _owned_and_ran(time))
    reasons = dict.fromkeys(one.owned.unknown for one in time.pools if one.owned.unknown)
    return IdleCost(None if owned is None or ran is None else owned - ran, currency, " ".join(reasons))


def _owned_and_ran(time: DeviceTime) -> tuple[list[Time], list[Time]]:
    return [one.owned for one in time.pools], [one.ran for one in time.pools]


def chart_of(report: selectors.Capacity) -> dict[str, Any]:
    """Return the line chart's data: for each pool, the seconds of device time sold in each hour. The last hour's value
    stands a second time at its end, so that the step has a width.
    """
    series = []
    for load in report.pools:
        sold = [cell.sold / 1e6 for cell in load.cells]
        series.append({"name": load.pool.slug, "values": [*sold, *sold[-1:]], "step": True})
    ends = [hour + timedelta(hours=1) for hour in report.hours[-1:]]
    return {"unit": "s", "times": [hour.isoformat() for hour in [*report.hours, *ends]], "series": series}
