"""Compare predicted and executed cycles and seconds, by pool."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.db import connection

from apps.fleet.models import PoolKind
from apps.reports.period_reports.core import Column, Metric, ReportData, ReportRequest, Value, ratio, whole

COLUMNS = (
    Column("pool", "Pool"),
    Column("kind", "Device time"),
    Column("blocks", "Blocks", "count"),
    Column("executions", "Executions", "count"),
    Column("predicted_cycles", "Predicted cycles", "count"),
    Column("counted_cycles", "Counted cycles", "count"),
    Column("predicted", "Predicted time", "seconds"),
    Column("executed", "Executed time", "seconds"),
    Column("difference", "Difference", "share"),
    Column("wall", "Wall-clock time", "seconds"),
)

# A simulated processor counts the cycles of one execution of the block. A host's device time is wall-clock time, and its
# prediction was a measured percentile in nanoseconds. Sums are by clock, so that they stay whole numbers.
_EXECUTED = """
SELECT pool.slug, pool.kind, stage.clock_hz, count(*), sum(lease.count), sum(lease.count * stage.interval_cycles),
    sum(lease.count * (lease.counters ->> 'interval')::numeric),
    sum(lease.count * (stage.interval_cycles - (lease.counters ->> 'interval')::numeric))
        FILTER (WHERE lease.counters IS NOT NULL),
    sum((1000000 * extract(epoch FROM lease.device_to - lease.device_from))::bigint), sum(lease.wall_ns)
FROM dispatch_lease AS lease
JOIN fleet_device AS owner ON owner.id = lease.device_id
JOIN fleet_pool AS pool ON pool.id = owner.pool_id
JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id
WHERE lease.state = 'done' AND lease.device_from >= %(start)s AND lease.device_from < %(end)s
GROUP BY 1, 2, 3 ORDER BY 1, 3
"""


def executed(request: ReportRequest) -> ReportData:
    """Return a row for each pool that executed work."""
    with connection.cursor() as cursor:
        cursor.execute(_EXECUTED, {"start": request.period.start, "end": request.until})
        found = cursor.fetchall()
    by_pool: dict[str, list[tuple[Any, ...]]] = {}
    for row in found:
        by_pool.setdefault(row[0], []).append(row)
    rows = [_row(slug, some) for slug, some in by_pool.items()]
    exact = [row for row in rows if row[4] is not None]
    off = sum(abs(whole(row[4]) - whole(row[5])) for row in exact)
    return ReportData(
        COLUMNS,
        rows,
        metrics=[
            Metric("Executions", sum(whole(row[3]) for row in rows), "count"),
            Metric(
                "Cycles that differ",
                off,
                "count",
                "on deterministic processors; a program with a bound may run fewer",
            ),
        ],
        notes=[
            "On deterministic processors, the compiler predicts the cycles and the processor counts them.",
            "If a program's cost depends on its data, the prediction is a proven upper bound.",
            "On hosts, the prediction is a percentile that was measured earlier, and executed time is wall-clock time.",
            "Wall-clock time is how long the worker took. Wall-clock time is never billed on a deterministic processor.",
        ],
        chart={
            "unit": "s",
            "categories": [str(row[0]) for row in rows],
            "series": [
                {"name": name, "values": [None if row[at] is None else float(row[at]) for row in rows]}  # type: ignore[arg-type]
                for name, at in (("Predicted", 6), ("Executed", 7))
            ],
        },
    )


def _row(slug: str, some: list[tuple[Any, ...]]) -> tuple[Value, ...]:
    blocks, executions = sum(row[3] for row in some), int(sum(row[4] for row in some))
    predicted = sum((Fraction(int(row[5]), row[2]) for row in some), Fraction(0))
    wall = Fraction(int(sum(row[9] or 0 for row in some)), 10**9)
    if some[0][1] == PoolKind.HOST:
        ran = Fraction(int(sum(row[8] for row in some)), 10**6)
        return slug, "measured", blocks, executions, None, None, predicted, ran, _off(predicted, ran), wall
    return slug, "exact", blocks, executions, *_counted(some, predicted), wall


def _counted(some: list[tuple[Any, ...]], predicted: Fraction) -> tuple[Value, Value, Value, Value, Value]:
    cycles = int(sum(row[5] for row in some))
    if all(row[6] is None for row in some):
        return cycles, None, predicted, None, None
    counted = [(int(row[5] - (row[7] or 0)), row[2]) for row in some]  # cycles and clock
    ran = sum((Fraction(count, clock) for count, clock in counted), Fraction(0))
    return cycles, sum(count for count, _ in counted), predicted, ran, _off(predicted, ran)


def _off(predicted: Fraction, ran: Fraction) -> Fraction | None:
    return ratio(ran - predicted, predicted)
