"""What was predicted beside what was executed, by pool: cycles as counted, and seconds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.db import connection

from apps.fleet.models import PoolKind
from apps.reports.sheets.core import Asked, Column, Metric, Sheet, Value, ratio, whole

COLUMNS = (
    Column("pool", "Pool"),
    Column("kind", "Device time is"),
    Column("blocks", "Blocks", "count"),
    Column("executions", "Executions", "count"),
    Column("predicted_cycles", "Predicted cycles", "count"),
    Column("counted_cycles", "Counted cycles", "count"),
    Column("predicted", "Predicted time", "seconds"),
    Column("executed", "Executed time", "seconds"),
    Column("difference", "Difference", "share"),
    Column("wall", "Simulated or run in", "seconds"),
)

# A simulated processor counts the cycles of one execution of the block; a host's device time is its wall clock, and its pace
# was a measured percentile in nanoseconds. Sums by clock keep whole numbers.
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


def executed(asked: Asked) -> Sheet:
    """A row for each pool in which something ran."""
    with connection.cursor() as cursor:
        cursor.execute(_EXECUTED, {"start": asked.period.start, "end": asked.until})
        found = cursor.fetchall()
    by_pool: dict[str, list[tuple[Any, ...]]] = {}
    for row in found:
        by_pool.setdefault(row[0], []).append(row)
    rows = [_row(slug, some) for slug, some in by_pool.items()]
    exact = [row for row in rows if row[4] is not None]
    off = sum(abs(whole(row[4]) - whole(row[5])) for row in exact)
    return Sheet(
        COLUMNS,
        rows,
        metrics=[
            Metric("Executions", sum(whole(row[3]) for row in rows), "count"),
            Metric(
                "Cycles that differ",
                off,
                "count",
                "of deterministic processors; of programs with a bound fewer may run",
            ),
        ],
        notes=[
            "Deterministic processors: predicted is the compiler's count, executed is what the processor counted.",
            "Where a program's cost depends on its data, the prediction is a proven bound.",
            "Hosts: predicted is the percentile that was measured before, executed is the wall clock.",
            "The last column says how long the execution took here; it is never billed on a deterministic processor.",
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
    """One pool, whatever clocks it had."""
    is_host = some[0][1] == PoolKind.HOST
    blocks, executions = sum(row[3] for row in some), int(sum(row[4] for row in some))
    predicted = sum((Fraction(int(row[5]), row[2]) for row in some), Fraction(0))
    wall = Fraction(int(sum(row[9] or 0 for row in some)), 10**9)
    if is_host:
        ran = Fraction(int(sum(row[8] for row in some)), 10**6)
        return slug, "measured", blocks, executions, None, None, predicted, ran, _off(predicted, ran), wall
    counted = [row for row in some if row[6] is not None]
    cycles, seen = int(sum(row[5] for row in some)), int(sum(row[5] - (row[7] or 0) for row in some))
    ran = sum((Fraction(int(row[5] - (row[7] or 0)), row[2]) for row in some), Fraction(0))
    if not counted:
        return slug, "exact", blocks, executions, cycles, None, predicted, None, None, wall
    return slug, "exact", blocks, executions, cycles, seen, predicted, ran, _off(predicted, ran), wall


def _off(predicted: Fraction, ran: Fraction) -> Fraction | None:
    """By how much of the prediction less (below 0) or more ran."""
    return ratio(ran - predicted, predicted)
