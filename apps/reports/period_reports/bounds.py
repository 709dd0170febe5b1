"""Compare the devices in service with the proven lower bound on the devices needed for sold work."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import connection

from apps.reports.models import CapacityPlan
from apps.reports.period_reports.core import Column, Metric, ReportData, ReportRequest, Value, ratio, whole

PLANS_MOST = 62  # the newest plans of the period
COLUMNS = (
    Column("at", "Plan of", "instant"),
    Column("pool", "Pool"),
    Column("owned", "In service", "count"),
    Column("used", "With windows", "count"),
    Column("needed", "Needed by the plan", "count"),
    Column("bound", "Proven bound", "count"),
    Column("above", "Plan above bound", "share"),
    Column("apart", "Devices above bound", "count"),
)

# Devices with a window within the day after the plan, which sold work uses.
_USED = """
SELECT place, pool.slug, count(DISTINCT win.device_id)
FROM unnest(%(instants)s::timestamptz[]) WITH ORDINALITY AS plan (at, place)
JOIN timetable_window AS win ON win.state = 'active' AND win.period && tstzrange(at, at + interval '1 day')
JOIN fleet_device AS owner ON owner.id = win.device_id
JOIN fleet_pool AS pool ON pool.id = owner.pool_id
GROUP BY 1, 2
"""


def bounds(request: ReportRequest) -> ReportData:
    """Return a row for each capacity plan and pool, newest plan first."""
    rows = _rows(request)
    newest = [row for row in rows if row[0] == rows[0][0]] if rows else []
    sums = [sum(whole(row[at]) for row in newest) for at in (2, 3, 4, 5)]
    return ReportData(
        COLUMNS,
        rows,
        metrics=[
            Metric("In service", sums[0], "count", "devices, newest plan"),
            Metric("With windows", sums[1], "count", "in the 24 hours after the plan"),
            Metric("Needed by the plan", sums[2], "count", "if programs shared devices"),
            Metric("Proven bound", sums[3], "count"),
        ],
        notes=[
            "Currently, a device runs one program at a time. The plan and its bound assume that programs share devices.",
            "“With windows” counts the devices that are reserved for sold work at some time in the 24 hours after the plan.",
        ],
        chart={
            "unit": "",
            "whole": True,
            "categories": [str(row[1]) for row in newest],
            "series": [
                {"name": COLUMNS[at].label, "values": [whole(row[at]) for row in newest]} for at in (2, 3, 4, 5)
            ],
        },
    )


def _rows(request: ReportRequest) -> list[tuple[Value, ...]]:
    plans = CapacityPlan.objects.filter(
        asked_at__gte=request.period.start,
        asked_at__lt=request.period.end,
        finished_at__isnull=False,
        is_cancelled=False,
        result__isnull=False,
    ).order_by("-asked_at", "-id")
    found = list(plans.values_list("asked_at", "result__pools")[:PLANS_MOST])
    used = _used([at for at, _ in found])
    return [
        _row(at, pool, used.get((place, pool["pool"]), 0)) for place, (at, pools) in enumerate(found) for pool in pools
    ]


def _used(instants: list[datetime]) -> dict[tuple[int, str], int]:
    with connection.cursor() as cursor:
        cursor.execute(_USED, {"instants": instants})
        return {(place - 1, slug): count for place, slug, count in cursor.fetchall()}


def _row(at: datetime, pool: dict[str, Any], used: int) -> tuple[Value, ...]:
    needed, bound = pool["needed"], pool["bound"]
    above: Fraction | None = ratio(needed - bound, bound)
    return at, pool["pool"], pool["owned"], used, needed, bound, above, max(0, used - bound)
