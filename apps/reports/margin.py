"""Compute device time and its cost in a period, by pool, class and customer. Costs are exact fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.fleet.models import Device, Pool, PoolKind
from apps.reports.costs import Segment, seconds_of, segments, unknown

# Full hours are stored as sums. If a lease crosses an end of the period, its hour is read lease by lease: leases within the
# period are summed, and leases that cross its end are returned one by one, because they are cut there. The class of a lease
# is the class served; without a usage row it is the class sold. Device time is counted exactly, in cycles from an instant; a
# host has no such clock, so its cycles here are microseconds.
_HOURS = """
SELECT place, pool_id, klass, organisation_id, clock_hz, sum(cycles)
FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS part (first, last, place)
JOIN dispatch_devicehour AS kept ON kept.hour >= first AND kept.hour < last AND kept.until < last
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
"""
_RAN = """
WITH cut AS (
    SELECT DISTINCT place, first, last, hour
    FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS part (first, last, place)
    JOIN dispatch_devicehour ON hour < last AND until >= first AND (hour < first OR until >= last)
),
ran AS (
    SELECT place, lease.id, device.pool_id, COALESCE(usage.klass, reservation.klass) AS klass, job.organisation_id,
        CASE WHEN is_host THEN 1000000 ELSE stage.clock_hz END AS clock,
        CASE WHEN is_host THEN lease.device_from ELSE lower(win.period) END AS origin,
        CASE WHEN is_host THEN 0 ELSE lease.first_cycle END AS first_cycle,
        CASE WHEN is_host THEN (1000000 * extract(epoch FROM lease.device_to - lease.device_from))::bigint
            ELSE lease.next_cycle - lease.first_cycle END AS cycles,
        lease.device_from >= first AND lease.device_to < last AS is_within
    FROM cut
    JOIN dispatch_lease AS lease ON lease.state = 'done' AND lease.device_from >= cut.hour
        AND lease.device_from < cut.hour + interval '1 hour'
    JOIN fleet_device AS device ON device.id = lease.device_id
    JOIN fleet_pool AS pool ON pool.id = device.pool_id
    CROSS JOIN LATERAL (SELECT pool.kind = %(host)s AS is_host) AS kind
    JOIN timetable_window AS win ON win.id = lease.window_id
    JOIN timetable_reservation AS reservation ON reservation.id = win.reservation_id
    JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id
    JOIN dispatch_job AS job ON job.id = stage.job_id
    LEFT JOIN ledger_usagerow AS usage ON usage.organisation_id = job.organisation_id
        AND usage.occurred_from = lease.device_from AND usage.lease_id = lease.id
    WHERE lease.device_from < last AND lease.device_to >= first
)
SELECT place, pool_id, klass, organisation_id, clock, is_within, min(origin), min(first_cycle), sum(cycles)
FROM ran GROUP BY 1, 2, 3, 4, 5, 6, CASE WHEN is_within THEN NULL ELSE id END ORDER BY 1, 2, 3, 4, 5
"""


class Ran(NamedTuple):
    """Device time that one customer used in one class on one pool."""

    pool_id: UUID
    klass: str
    organisation_id: UUID
    seconds: Fraction


class Time(NamedTuple):
    """Device time in exact seconds, and its cost. The cost is None if unknown; `unknown` then gives the reasons."""

    seconds: Fraction
    cost: Fraction | None
    unknown: str = ""


@dataclass
class _Sum:
    seconds: Fraction = Fraction(0)
    costs: list[Fraction | None] = field(default_factory=list)
    reasons: dict[str, None] = field(default_factory=dict)

    def add(self, seconds: Fraction, cost: Fraction | None, reason: str) -> None:
        self.seconds += seconds
        self.costs.append(cost)
        if cost is None:
            self.reasons[reason] = None

    @property
    def time(self) -> Time:
        return Time(self.seconds, total(self.costs), " ".join(self.reasons))


class PoolTime(NamedTuple):
    """The device time of a pool: the time owned (`owned`) and the time used (`ran`)."""

    pool: Pool
    owned: Time
    ran: Time


class DeviceTime(NamedTuple):
    """The device time in a period by pool, and the used device time by class and by customer."""

    pools: list[PoolTime]
    by_class: dict[str, Time]
    by_customer: dict[UUID, Time]


def total(costs: Iterable[Fraction | None]) -> Fraction | None:
    """Return the sum of the costs; None if any cost is unknown."""
    found = Fraction(0)
    for cost in costs:
        if cost is None:
            return None
        found += cost
    return found


def device_time(*, start: datetime, end: datetime, currency: str) -> DeviceTime:
    """Return the owned and the used device time in [start, end), with costs."""
    parts = segments(start=start, end=end, currency=currency)
    pools = {pool.pk: pool for pool in Pool.objects.order_by("slug")}
    owned = {pk: _Sum() for pk in pools}
    ran = {pk: _Sum() for pk in pools}
    by_class: dict[str, _Sum] = {}
    by_customer: dict[UUID, _Sum] = {}
    reasons = {pk: unknown(parts, pool.processor_class, pk) for pk, pool in pools.items()}
    devices = list(Device.objects.select_related("pool").order_by("pool__slug", "name"))
    for part, rows in zip(parts, ran_within(parts), strict=True):
        for device in devices:
            seconds = _owned(device, part)
            cost = part.cost(device.pool.processor_class, seconds, device.pool_id)
            owned[device.pool_id].add(seconds, cost, reasons[device.pool_id])
        for row in rows:
            cost = part.cost(pools[row.pool_id].processor_class, row.seconds, row.pool_id)
            klass = by_class.setdefault(row.klass, _Sum())
            customer = by_customer.setdefault(row.organisation_id, _Sum())
            for one in (ran[row.pool_id], klass, customer):
                one.add(row.seconds, cost, reasons[row.pool_id])
    return DeviceTime(
        [PoolTime(pool, owned[pk].time, ran[pk].time) for pk, pool in pools.items()],
        {name: one.time for name, one in by_class.items()},
        {pk: one.time for pk, one in by_customer.items()},
    )


def _owned(device: Device, part: Segment) -> Fraction:
    first = max(part.start, device.owned_from or device.pool.created_at)
    last = min(part.end, device.owned_until or part.end)
    return max(Fraction(0), seconds_of(last - first))


def ran_within(parts: Sequence[Segment]) -> list[list[Ran]]:
    """Return the device time used in each part of a period. A lease that spans two parts is divided between the parts."""
    found: list[list[Ran]] = [[] for _ in parts]
    if not parts:
        return found
    params: dict[str, Any] = {
        "starts": [part.start for part in parts],
        "ends": [part.end for part in parts],
        "host": PoolKind.HOST,
    }
    with connection.cursor() as cursor:
        cursor.execute(_HOURS, params)
        for place, pool_id, klass, organisation_id, clock, cycles in cursor.fetchall():
            if cycles:
                found[place - 1].append(Ran(pool_id, klass, organisation_id, Fraction(int(cycles), clock)))
        cursor.execute(_RAN, params)
        rows = cursor.fetchall()
    for place, pool_id, klass, organisation_id, clock, is_within, origin, first, cycles in rows:
        part, seconds = parts[place - 1], Fraction(int(cycles), clock)
        if not is_within:
            begin = seconds_of(origin - part.start) + Fraction(first, clock)
            seconds = min(begin + seconds, seconds_of(part.end - part.start)) - max(begin, Fraction(0))
        if seconds > 0:
            found[place - 1].append(Ran(pool_id, klass, organisation_id, seconds))
    return found
