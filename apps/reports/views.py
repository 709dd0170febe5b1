"""The administrator's capacity page."""

from __future__ import annotations

from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import platform_admin_required
from apps.reports import selectors


@require_GET
@platform_admin_required
def capacity(request: HttpRequest) -> HttpResponse:
    """One UTC day, today unless `?day=2026-03-01` says otherwise."""
    now = timezone.now()
    report = selectors.capacity(day=day_of(request.GET.get("day", ""), now=now), now=now)
    return render(request, "reports/capacity.html", {"report": report, "chart": chart_of(report)})


def day_of(text: str, *, now: datetime) -> datetime:
    """The start of the stated UTC day; today's when the text states none."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def chart_of(report: selectors.Capacity) -> dict[str, object]:
    """Seconds sold per hour, by pool, for the line chart; its table twin has the rest."""
    series = [
        {"name": load.pool.slug, "values": [cell.sold / 1e6 for cell in load.cells], "step": True}
        for load in report.pools
    ]
    return {"unit": "s", "times": [hour.isoformat() for hour in report.hours], "series": series}
