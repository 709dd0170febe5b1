"""Report the load of each pool by hour of the day: device time, link bytes, and memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import connection

from apps.fleet.models import Pool, PoolKind
from apps.reports.capacity_plans.facts import per_second, target_of
from apps.reports.period_reports.core import Column, Heat, Metric, ReportData, ReportRequest, Value, ratio
from apps.reports.period_reports.service_time import Service, service

HOURS = 24
VIEWS = (
    ("sold", "Time sold"),
    ("ran", "Time used"),
    ("link-in", "Link in"),
    ("link-out", "Link out"),
    ("memory", "Memory"),
)
COLUMNS = (
    Column("pool", "Pool"),
    Column("hour", "Hour (UTC)"),
    Column("available", "In service", "seconds"),
    Column("sold", "Sold", "seconds"),
    Column("ran", "Used", "seconds"),
    Column("sold_share", "Share sold", "share"),
    Column("ran_share", "Share used", "share"),
    Column("link_in_share", "Link in", "share"),
    Column("link_out_share", "Link out", "share"),
    Column("memory_share", "Memory", "share"),
)
PLACES = {name: 5 + at for at, (name, _) in enumerate(VIEWS)}

# A window over several hours is split at each full hour.
_SOLD = """
SELECT owner.pool_id, extract(hour FROM hour AT TIME ZONE 'UTC')::int,
    sum((1000000 * extract(epoch FROM
        least(upper(win.period), hour + interval '1 hour', %(end)s) - greatest(lower(win.period), hour, %(start)s)))::bigint)
FROM timetable_window AS win
JOIN fleet_device AS owner ON owner.id = win.device_id
CROSS JOIN LATERAL generate_series(
    date_trunc('hour', greatest(lower(win.period), %(start)s), 'UTC'), least(upper(win.period), %(end)s), interval '1 hour'
) AS hour
WHERE win.state = 'active' AND win.period && tstzrange(%(start)s, %(end)s) AND hour < least(upper(win.period), %(end)s)
GROUP BY 1, 2
"""
# A block belongs to the hour in which it started. Each program's resources are read once.
_RAN = """
WITH ran AS (
    SELECT owner.pool_id, extract(hour FROM lease.device_from AT TIME ZONE 'UTC')::int AS hour, stage.program_id,
        sum(lease.count) AS executions,
        sum(CASE WHEN pool.kind = %(host)s THEN extract(epoch FROM lease.device_to - lease.device_from)
            ELSE (lease.next_cycle - lease.first_cycle)::numeric / stage.clock_hz END) AS seconds
    FROM dispatch_lease AS lease
    JOIN fleet_device AS owner ON owner.id = lease.device_id
    JOIN fleet_pool AS pool ON pool.id = owner.pool_id
    JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id
    WHERE lease.state = 'done' AND lease.device_from >= %(start)s AND lease.device_from < %(end)s GROUP BY 1, 2, 3
)
SELECT pool_id, hour, sum(seconds),
    sum(executions * (program.resources #>> '{io,bytes_in}')::numeric),
    sum(executions * (program.resources #>> '{io,bytes_out}')::numeric),
    sum(seconds * (program.resources #>> '{storage,total}')::numeric)
FROM ran JOIN compilation_program AS program ON program.id = ran.program_id GROUP BY 1, 2
"""


@dataclass
class _Cell:
    # Seconds, link bytes, and byte-seconds of occupied memory, summed over all days.
    available: Fraction = Fraction(0)
    sold: Fraction = Fraction(0)
    ran: Fraction = Fraction(0)
    link_in: Fraction | None = None
    link_out: Fraction | None = None
    held: Fraction | None = None


@dataclass(frozen=True)
class _Rates:
    # Bytes per second, and bytes of memory; None if the processor does not state the value.
    link_in: int | None = None
    link_out: int | None = None
    memory: int | None = None


_ByPool = list[tuple[str, list[Value]]]  # a slug, and one dimension by hour of the day


def load(request: ReportRequest) -> ReportData:
    """Return a row for each pool and hour of the day. The view selects the dimension of the heat map."""
    start, until = request.period.start, request.until
    found = service(start=start, end=until)
    pools = [pool for pool in Pool.objects.select_related("processor").order_by("slug") if found.owned.get(pool.pk)]
    rows = _rows(pools, _cells(found, start, until))
    available, sold, used = (sum((Fraction(row[at] or 0) for row in rows), Fraction(0)) for at in (2, 3, 4))  # type: ignore[arg-type]
    view = request.view if request.view in PLACES else "sold"
    by_pool: _ByPool = [
        (pool.slug, [row[PLACES[view]] for row in rows[at * HOURS : (at + 1) * HOURS]]) for at, pool in enumerate(pools)
    ]
    return ReportData(
        COLUMNS,
        rows if sold + used else [],
        metrics=[
            Metric("In service", available, "seconds", "device time of all pools"),
            Metric("Sold", ratio(sold, available), "share", "of the time in service"),
            Metric("Used", ratio(used, available), "share", "of the time in service"),
        ],
        notes=[
            "Each value is the mean of one hour of the day over all days. A block belongs to the hour in which it started.",
            (
                "Memory is the mean share of the devices' total memory that running programs filled. Hosts report "
                "no link or memory use."
            ),
        ],
        chart=_chart(by_pool),
        heat=_heat(dict(VIEWS)[view], by_pool),
        views=list(VIEWS),
        view=view,
    )


def _chart(by_pool: _ByPool) -> dict[str, Any]:
    return {
        "unit": "%",
        "categories": [f"{hour:02d}" for hour in range(HOURS)],
        "series": [{"name": slug, "values": [_per_cent(value) for value in values]} for slug, values in by_pool],
    }


def _heat(title: str, by_pool: _ByPool) -> Heat:
    return Heat(
        title,
        "Pool",
        [f"{hour:02d}" for hour in range(HOURS)],
        [(slug, [_share(value) for value in values]) for slug, values in by_pool],
        "The mean over all days, by pool and hour of the day (UTC). The stronger a cell's colour, the busier the hour; "
        "empty cells are 0 or unknown.",
    )


def _share(value: Value) -> Fraction | None:
    return value if isinstance(value, Fraction) else None


def _per_cent(value: Value) -> float | None:
    share = _share(value)
    return None if share is None else float(f"{float(share * 100):.4g}")


def _rates(pool: Pool) -> _Rates:
    if pool.processor is None:
        return _Rates()
    target = target_of(pool.processor.name, pool.processor.digest)
    if target is None:
        return _Rates(memory=pool.processor.memory_bytes)
    return _Rates(per_second(target, "link_in"), per_second(target, "link_out"), target.memory_bytes)


def _cells(found: Service, start: datetime, until: datetime) -> dict[tuple[UUID, int], _Cell]:
    cells: dict[tuple[UUID, int], _Cell] = defaultdict(_Cell)
    for span in found.spans:
        for hour, seconds in _by_hour(span.start, span.end).items():
            cells[span.pool, hour].available += seconds
    params: dict[str, Any] = {"start": start, "end": until, "host": PoolKind.HOST}
    with connection.cursor() as cursor:
        cursor.execute(_SOLD, params)
        for pool, hour, micros in cursor.fetchall():
            cells[pool, hour].sold += Fraction(int(micros), 10**6)
        cursor.execute(_RAN, params)
        for pool, hour, seconds, link_in, link_out, held in cursor.fetchall():
            cell = cells[pool, hour]
            cell.ran += Fraction(seconds)
            cell.link_in, cell.link_out, cell.held = (
                None if x is None else Fraction(x) for x in (link_in, link_out, held)
            )
    return cells


def _by_hour(start: datetime, end: datetime) -> dict[int, Fraction]:
    days, rest = divmod(end - start, timedelta(days=1))
    found = {hour: Fraction(3600 * days) for hour in range(HOURS)} if days else {}
    at, until = start, start + rest
    while at < until:
        following = min(until, at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1))
        length = Fraction((following - at) // timedelta(microseconds=1), 10**6)
        found[at.hour] = found.get(at.hour, Fraction(0)) + length
        at = following
    return found


def _rows(pools: list[Pool], cells: dict[tuple[UUID, int], _Cell]) -> list[tuple[Value, ...]]:
    rates = {pool.pk: _rates(pool) for pool in pools}  # a processor's description is read once
    return [_row(pool, hour, cells[pool.pk, hour], rates[pool.pk]) for pool in pools for hour in range(HOURS)]


def _row(pool: Pool, hour: int, cell: _Cell, rates: _Rates) -> tuple[Value, ...]:
    return (
        pool.slug,
        f"{hour:02d}",
        cell.available,
        cell.sold,
        cell.ran,
        ratio(cell.sold, cell.available),
        ratio(cell.ran, cell.available),
        _of(cell.link_in, rates.link_in, cell.available),
        _of(cell.link_out, rates.link_out, cell.available),
        _of(cell.held, rates.memory, cell.available),
    )


def _of(amount: Fraction | None, rate: int | None, seconds: Fraction) -> Fraction | None:
    if not rate or not seconds:
        return None
    return (amount or Fraction(0)) / (rate * seconds)
