"""Report how many blocks were finished as promised, and the cost of repeated and lost blocks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.fleet.models import Pool, PoolKind
from apps.reports.costs import Segment, seconds_of, segments
from apps.reports.period_reports.core import Column, Metric, ReportData, ReportRequest, Value, ratio, whole

COLUMNS = (
    Column("pool", "Pool"),
    Column("class", "Class sold"),
    Column("due", "Blocks due", "count"),
    Column("kept", "Promise kept", "count"),
    Column("late", "Lower class", "count"),
    Column("missed", "Missed", "count"),
    Column("share", "Share kept", "share"),
    Column("delay", "Result delay, p95", "seconds"),
    Column("repeated", "Repeated", "count"),
    Column("repeated_seconds", "Repeated and lost time", "seconds"),
    Column("repeated_cost", "Cost of repeated and lost time", "money"),
)

# A block counts where its device time started. It kept its promise if it was served in the class that was sold. Nobody paid for
# the device time of attempts that another worker repeated, nor for blocks that failed on our side.
_BLOCKS = """
SELECT place, owner.pool_id, reservation.klass,
    count(*) FILTER (WHERE lease.state = 'done' AND coalesce(used.klass, reservation.klass) = reservation.klass),
    count(*) FILTER (WHERE lease.state = 'done' AND coalesce(used.klass, reservation.klass) <> reservation.klass),
    count(*) FILTER (WHERE lease.is_missed),
    count(*) FILTER (WHERE lease.epoch > 1 AND lease.state = 'done'),
    coalesce(sum((CASE WHEN lease.is_missed THEN lease.epoch ELSE lease.epoch - 1 END) * spent.seconds)
        FILTER (WHERE lease.is_missed OR (lease.epoch > 1 AND lease.state = 'done')), 0),
    percentile_disc(0.95) WITHIN GROUP (
        ORDER BY greatest(interval '0', lease.finished_at - lease.device_to)) FILTER (WHERE lease.state = 'done')
FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS part (first, last, place)
JOIN dispatch_lease AS lease ON lease.device_from >= first AND lease.device_from < last
    AND (lease.state = 'done' OR lease.is_missed)
JOIN fleet_device AS owner ON owner.id = lease.device_id
JOIN fleet_pool AS pool ON pool.id = owner.pool_id
JOIN timetable_window AS win ON win.id = lease.window_id
JOIN timetable_reservation AS reservation ON reservation.id = win.reservation_id
JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id
LEFT JOIN ledger_usagerow AS used ON used.organisation_id = reservation.organisation_id
    AND used.occurred_from = lease.device_from AND used.lease_id = lease.id
CROSS JOIN LATERAL (SELECT CASE WHEN pool.kind = %(host)s THEN extract(epoch FROM lease.device_to - lease.device_from)
    ELSE (lease.next_cycle - lease.first_cycle)::numeric / stage.clock_hz END AS seconds) AS spent
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


class _Blocks(NamedTuple):
    place: int
    pool: UUID
    klass: str
    kept: int
    late: int
    missed: int
    repeated: int
    lost: Fraction
    delay: Fraction | None


def promises(request: ReportRequest) -> ReportData:
    """Return a row for each pool and each class sold."""
    parts = segments(start=request.period.start, end=request.until, currency=request.currency)
    pools = {pool.pk: pool for pool in Pool.objects.order_by("slug")}
    groups: dict[tuple[str, str], list[_Blocks]] = {}
    for one in _blocks(parts):
        groups.setdefault((pools[one.pool].slug, one.klass), []).append(one)
    rows = [_row(slug, klass, groups[slug, klass], parts, pools) for slug, klass in sorted(groups)]
    due, kept, missed = (sum(whole(row[at]) for row in rows) for at in (2, 3, 5))
    return ReportData(
        COLUMNS,
        rows,
        metrics=[
            Metric("Blocks due", due, "count"),
            Metric("Kept", ratio(kept, due), "share", "served in the class sold"),
            Metric("Missed", missed, "count", "failed on our side; credited automatically"),
        ],
        notes=[
            (
                "A block is a run of executions on one device. A block kept its promise if it ended within the time that the "
                "sold class promises."
            ),
            "Work that was served in a lower class is charged at the price of that class.",
            (
                "A block is repeated if its worker stopped responding and another worker took over. Earlier "
                "attempts are not charged."
            ),
        ],
        chart={
            "unit": "",
            "whole": True,
            "horizontal": True,
            "stacked": True,
            "categories": [f"{row[0]}, {row[1]}" for row in rows],
            "series": [{"name": COLUMNS[at].label, "values": [whole(row[at]) for row in rows]} for at in (3, 4, 5)],
        },
        currency=request.currency,
    )


def _blocks(parts: Sequence[Segment]) -> list[_Blocks]:
    params: dict[str, Any] = {
        "starts": [part.start for part in parts],
        "ends": [part.end for part in parts],
        "host": PoolKind.HOST,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BLOCKS, params)
        return [
            _Blocks(place - 1, pool, klass, kept, late, missed, repeated, Fraction(lost), _length(delay))
            for place, pool, klass, kept, late, missed, repeated, lost, delay in cursor.fetchall()
        ]


def _length(delay: timedelta | None) -> Fraction | None:
    return None if delay is None else seconds_of(delay)


def _row(
    slug: str, klass: str, some: list[_Blocks], parts: Sequence[Segment], pools: dict[UUID, Pool]
) -> tuple[Value, ...]:
    kept, late, missed = (sum(getattr(one, name) for one in some) for name in ("kept", "late", "missed"))
    costs = [parts[one.place].cost(pools[one.pool].processor_class, one.lost, one.pool) for one in some]
    delays = [one.delay for one in some if one.delay is not None]
    cost = None if any(one is None for one in costs) else sum((one or Fraction(0) for one in costs), Fraction(0))
    return (
        slug,
        klass,
        kept + late + missed,
        kept,
        late,
        missed,
        ratio(kept, kept + late + missed),
        max(delays, default=None),
        sum(one.repeated for one in some),
        sum((one.lost for one in some), Fraction(0)),
        cost,
    )
