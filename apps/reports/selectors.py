"""The capacity of the pools on one day. Times are whole microseconds; shares are exact fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Sum

from apps.dispatch.models import Lease, LeaseState
from apps.dispatch.selectors import queue_depths
from apps.fleet.models import Device, Pool
from apps.fleet.selectors import PoolInFull, pools_in_full
from apps.ledger.models import UsageSum
from apps.ledger.selectors import executions_sum
from apps.pricing.rating import exact_sum
from apps.sales.models import Contract
from apps.timetable.admission import Interval, clip
from apps.timetable.expiry import sold
from apps.timetable.instants import micros_of
from apps.timetable.models import Refusal, Window, WindowState
from apps.timetable.selectors import Slot, slots_free

HOUR = timedelta(hours=1)
MICRO = timedelta(microseconds=1)
HOUR_MICROS = 3_600_000_000
HOURS = 24
FREE_AHEAD = timedelta(hours=24)
FREE_SHOWN = 8
REFUSALS_SHOWN = 20
HEAT_STEPS = 6


class Cell(NamedTuple):
    """The device time of a pool in one hour: available, sold and used (`executed`)."""

    start: datetime
    available: int
    sold: int
    executed: int

    @property
    def lengths(self) -> dict[str, timedelta]:
        return {
            "available": timedelta(microseconds=self.available),
            "sold": timedelta(microseconds=self.sold),
            "executed": timedelta(microseconds=self.executed),
        }

    @property
    def share_sold(self) -> Fraction:
        return Fraction(self.sold, self.available) if self.available else Fraction(0)

    @property
    def unused(self) -> timedelta:
        return timedelta(microseconds=max(0, self.sold - self.executed))

    @property
    def unallocated(self) -> timedelta:
        return timedelta(microseconds=max(0, self.available - self.sold))

    @property
    def share_unallocated(self) -> Fraction:
        return 1 - min(Fraction(1), self.share_sold) if self.available else Fraction(0)

    @property
    def share_idle(self) -> Fraction:
        """The share of the sold device time that was not used; at least 0."""
        return Fraction(max(0, self.sold - self.executed), self.sold) if self.sold else Fraction(0)

    @property
    def heat(self) -> int:
        """The heat level of the sold share, from 0 to 6; 0 if nothing was sold."""
        return -int(-self.share_sold * HEAT_STEPS // 1)


@dataclass(frozen=True)
class Waits:
    """How long due leases waited for a worker. The percentiles are None if no worker took a lease."""

    count: int
    p50: timedelta | None
    p95: timedelta | None


class SlotRow(NamedTuple):
    """A period in which a device is free."""

    device: str
    start: datetime
    end: datetime
    length: timedelta


@dataclass(frozen=True)
class PoolLoad:
    """The load of one pool on one day."""

    pool: Pool
    fleet: PoolInFull
    cells: list[Cell]
    queue: dict[str, int]
    waits: Waits
    free: list[SlotRow]
    free_total: timedelta

    @property
    def waiting(self) -> int:
        """The number of leases that are planned or offered but not started."""
        return self.queue.get("planned", 0) + self.queue.get("offered", 0)

    @property
    def day(self) -> Cell:
        first = self.cells[0]
        return Cell(
            first.start,
            sum(cell.available for cell in self.cells),
            sum(cell.sold for cell in self.cells),
            sum(cell.executed for cell in self.cells),
        )


class Income(NamedTuple):
    """The revenue of one class on one pool, from executions that started on the day."""

    pool: str
    klass: str
    executions: int
    amount: Decimal
    currency: str


@dataclass(frozen=True)
class Capacity:
    """The capacity of all pools on one UTC day, with income and the newest refusals."""

    day: datetime
    hours: list[datetime]
    pools: list[PoolLoad]
    refusals: list[Refusal]
    income: list[Income]
    now: datetime

    @property
    def whole(self) -> Cell:
        days = [load.day for load in self.pools]
        return Cell(
            self.day,
            sum(day.available for day in days),
            sum(day.sold for day in days),
            sum(day.executed for day in days),
        )

    @property
    def unused(self) -> timedelta:
        """The sum over the pools: what a host took beyond its reservations was not used of another pool's."""
        return sum((load.day.unused for load in self.pools), timedelta())

    @property
    def share_unused(self) -> Fraction:
        """The share of the sold device time that was not used."""
        sold = self.whole.lengths["sold"]
        return Fraction(self.unused // MICRO, sold // MICRO) if sold else Fraction(0)

    @property
    def free_total(self) -> timedelta:
        return sum((load.free_total for load in self.pools), timedelta())

    @property
    def day_before(self) -> datetime:
        return self.day - timedelta(days=1)

    @property
    def day_after(self) -> datetime:
        return self.day + timedelta(days=1)


def capacity(*, day: datetime, now: datetime) -> Capacity:
    """Return the capacity of every pool on the UTC day that contains `day`."""
    start = day.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    hours = [start + number * HOUR for number in range(HOURS)]
    rows = pools_in_full(now=now)
    facts = _Facts.of([device for row in rows for device in row.devices], hours, now)
    loads = [_pool_load(row, hours, facts) for row in rows]
    refusals = Refusal.objects.select_related("pool", "organisation").order_by("-at")
    return Capacity(start, hours, loads, list(refusals[:REFUSALS_SHOWN]), income(start, hours[-1] + HOUR), now)


def income(start: datetime, end: datetime) -> list[Income]:
    """Return income by pool and class, from usage whose device time started in [start, end). Both instants must be full
    hours.
    """
    rows = (
        UsageSum.objects.filter(occurred_at__gte=start, occurred_at__lt=end)
        .values("contract_id", "klass", "currency")
        .annotate(executions=executions_sum(), amount=Sum("amount"))
        .order_by()
    )
    found = list(rows)
    slugs = dict(Contract.objects.filter(pk__in=[row["contract_id"] for row in found]).values_list("pk", "pool__slug"))
    sums: dict[tuple[str, str, str], tuple[int, Decimal]] = {}
    for row in found:
        key = (slugs[row["contract_id"]], row["klass"], row["currency"])
        executions, amount = sums.get(key, (0, Decimal(0)))
        sums[key] = (executions + row["executions"], exact_sum([amount, row["amount"]]))
    return [Income(pool, klass, *sums[pool, klass, currency], currency) for pool, klass, currency in sorted(sums)]


class _Facts(NamedTuple):
    sold: dict[UUID, list[Interval]]
    executed: dict[UUID, list[Interval]]
    free: list[Slot]
    queues: dict[str, dict[str, int]]
    waits: dict[UUID, Waits]

    @classmethod
    def of(cls, devices: Sequence[Device], hours: Sequence[datetime], now: datetime) -> _Facts:
        start, end = hours[0], hours[-1] + HOUR
        free = slots_free([device for device in devices if device.is_active], now, now + FREE_AHEAD, now=now)
        ids = [device.pk for device in devices]
        return cls(
            _sold(ids, start, end), _executed(ids, start, end), free, queue_depths(), waits(since=now - FREE_AHEAD)
        )


def _pool_load(row: PoolInFull, hours: Sequence[datetime], facts: _Facts) -> PoolLoad:
    ids = {device.pk for device in row.devices}
    sold, executed = (
        _by_hour([some for pk, some in found.items() if pk in ids], hours) for found in (facts.sold, facts.executed)
    )
    devices = sum(device.is_active for device in row.devices)
    cells = [
        Cell(hour, devices * HOUR_MICROS, in_sale, run)
        for hour, in_sale, run in zip(hours, sold, executed, strict=True)
    ]
    free = [_slot_row(slot) for slot in facts.free if slot.device.pk in ids]
    longest = sorted(free, key=lambda slot: (-slot.length, slot.start))[:FREE_SHOWN]
    return PoolLoad(
        pool=row.pool,
        fleet=row,
        cells=cells,
        queue=facts.queues.get(row.pool.slug, {}),
        waits=facts.waits.get(row.pool.pk, Waits(0, None, None)),
        free=sorted(longest, key=lambda slot: (slot.start, slot.device)),
        free_total=sum((slot.length for slot in free), timedelta()),
    )


def _slot_row(slot: Slot) -> SlotRow:
    return SlotRow(slot.device.name, slot.start, slot.end, slot.end - slot.start)


def _sold(devices: Sequence[UUID], start: datetime, end: datetime) -> dict[UUID, list[Interval]]:
    rows = Window.objects.filter(
        device__in=devices, state=WindowState.ACTIVE, period__overlap=DateTimeTZRange(start, end, "[)")
    )
    return _by_device(sold(rows).values_list("device_id", "period__startswith", "period__endswith"))


def _executed(devices: Sequence[UUID], start: datetime, end: datetime) -> dict[UUID, list[Interval]]:
    rows = Lease.objects.filter(
        device__in=devices, state=LeaseState.DONE, device_from__lt=end, device_to__gt=start
    ).order_by()
    return _by_device(rows.values_list("device_id", "device_from", "device_to"))


def _by_device(rows: Iterable[tuple[UUID, datetime, datetime]]) -> dict[UUID, list[Interval]]:
    found: dict[UUID, list[Interval]] = {}
    for device_id, start, end in rows:
        found.setdefault(device_id, []).append(Interval(micros_of(start), micros_of(end)))
    return found


def _by_hour(of_devices: Iterable[list[Interval]], hours: Sequence[datetime]) -> list[int]:
    start, end = micros_of(hours[0]), micros_of(hours[-1] + HOUR)
    sums = [0] * len(hours)
    for some in of_devices:
        for one in clip(some, start, end):
            at = one.start
            while at < one.end:
                hour = (at - start) // HOUR_MICROS
                until = min(one.end, start + (hour + 1) * HOUR_MICROS)
                sums[hour] += until - at
                at = until
    return sums


# Nearest-rank percentiles of the time from the instant at which a lease was due until its first worker took it.
_WAITS = """
SELECT device.pool_id, count(*), percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(
    interval '0', lease.taken_at - greatest(
        job.submitted_at,
        lower(win.period)
            + div(lease.first_cycle::numeric * 1000000, stage.clock_hz)::double precision * interval '1 microsecond'
    )
))
FROM dispatch_lease AS lease
JOIN fleet_device AS device ON device.id = lease.device_id
JOIN timetable_window AS win ON win.id = lease.window_id
JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id
JOIN dispatch_job AS job ON job.id = stage.job_id
WHERE lease.taken_at >= %(since)s AND lease.epoch = 1 GROUP BY 1
"""


def waits(*, since: datetime) -> dict[UUID, Waits]:
    """Return the waiting times of leases first taken at or after `since`, by pool. Pools without such leases are left
    out.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WAITS, {"since": since})
        return {pool: Waits(count, *ranks) for pool, count, ranks in cursor.fetchall()}
