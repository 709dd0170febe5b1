"""Device time of a period and what it cost: by pool, and by the class and the customer that it ran for.

Costs are exact fractions (an hour has no decimal part of a microsecond); they are rounded where they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from apps.fleet.models import Device, Pool
from apps.reports.costs import Segment, segments, unknown

# The class of a row of usage is the one that was served; a lease without a row yet counts by the class that was sold.
_RAN = """
SELECT device.pool_id, COALESCE(usage.klass, reservation.klass), job.organisation_id,
    sum(LEAST(lease.device_to, %(end)s) - GREATEST(lease.device_from, %(start)s))
FROM dispatch_lease AS lease
JOIN fleet_device AS device ON device.id = lease.device_id
JOIN timetable_window AS win ON win.id = lease.window_id
JOIN timetable_reservation AS reservation ON reservation.id = win.reservation_id
JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id
JOIN dispatch_job AS job ON job.id = stage.job_id
LEFT JOIN ledger_usagerow AS usage ON usage.organisation_id = job.organisation_id
    AND usage.occurred_from = lease.device_from AND usage.lease_id = lease.id
WHERE lease.state = 'done' AND lease.device_from < %(end)s AND lease.device_to > %(start)s
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


class Ran(NamedTuple):
    """Device time in which leases of one class and customer ran on one pool."""

    pool_id: UUID
    klass: str
    organisation_id: UUID
    length: timedelta


class Time(NamedTuple):
    """Device time and its cost; None where a part of it has no stated cost."""

    length: timedelta
    cost: Fraction | None


@dataclass
class _Sum:
    length: timedelta = timedelta()
    costs: list[Fraction | None] = field(default_factory=list)

    def add(self, length: timedelta, cost: Fraction | None) -> None:
        self.length += length
        self.costs.append(cost)

    @property
    def time(self) -> Time:
        return Time(self.length, total(self.costs))


class PoolTime(NamedTuple):
    """A pool's devices over the period: what was owned, and the part of it in which leases ran."""

    pool: Pool
    owned: Time
    ran: Time
    unknown: str


class DeviceTime(NamedTuple):
    """The device time of a period, parted by pool, and the part that ran by class and by customer."""

    pools: list[PoolTime]
    by_class: dict[str, Time]
    by_customer: dict[UUID, Time]


def total(costs: Iterable[Fraction | None]) -> Fraction | None:
    """The sum, or None as soon as one of them is not known."""
    found = Fraction(0)
    for cost in costs:
        if cost is None:
            return None
        found += cost
    return found


def device_time(*, start: datetime, end: datetime, currency: str) -> DeviceTime:
    """What was owned and what ran in [start, end), priced by the cost rates in that currency."""
    parts = segments(start=start, end=end, currency=currency)
    pools = {pool.pk: pool for pool in Pool.objects.order_by("slug")}
    owned = {pk: _Sum() for pk in pools}
    ran = {pk: _Sum() for pk in pools}
    by_class: dict[str, _Sum] = {}
    by_customer: dict[UUID, _Sum] = {}
    devices = list(Device.objects.select_related("pool").order_by("pool__slug", "name"))
    for part in parts:
        for device in devices:
            length = _owned(device, part)
            owned[device.pool_id].add(length, part.cost(device.pool.processor_class, length))
        for row in _ran(part):
            cost = part.cost(pools[row.pool_id].processor_class, row.length)
            ran[row.pool_id].add(row.length, cost)
            by_class.setdefault(row.klass, _Sum()).add(row.length, cost)
            by_customer.setdefault(row.organisation_id, _Sum()).add(row.length, cost)
    return DeviceTime(
        [_pool_time(pool, owned[pk].time, ran[pk].time, parts) for pk, pool in pools.items()],
        {name: one.time for name, one in by_class.items()},
        {pk: one.time for pk, one in by_customer.items()},
    )


def _pool_time(pool: Pool, owned: Time, ran: Time, parts: Sequence[Segment]) -> PoolTime:
    reason = unknown(parts, pool.processor_class) if owned.cost is None else ""
    return PoolTime(pool, owned, ran, reason)


def _owned(device: Device, part: Segment) -> timedelta:
    """How long the device was owned within the part."""
    first = max(part.start, device.owned_from or device.pool.created_at)
    last = min(part.end, device.owned_until or part.end)
    return max(timedelta(), last - first)


def _ran(part: Segment) -> list[Ran]:
    with connection.cursor() as cursor:
        cursor.execute(_RAN, {"start": part.start, "end": part.end})
        return [Ran(*row) for row in cursor.fetchall()]
