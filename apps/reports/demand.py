"""The hourly demand on each pool and the pool's capacity, in device seconds and in operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import F, Min, Sum
from django.db.models.functions import TruncHour

from apps.dispatch.models import DeviceHour
from apps.fleet.descriptions import peak
from apps.fleet.models import Pool
from apps.fleet.selectors import pools, processor_find
from apps.ledger.models import UsageSum
from apps.reports.forecasting import HOUR, Series, series_of_hours
from apps.sales.models import Contract
from compiler import targets

HISTORY = timedelta(weeks=12)
SECONDS = 3600
DEVICE_TIME, OPERATIONS = "device time", "operations"
UNITS = {DEVICE_TIME: "s", OPERATIONS: "op"}


class Demand(NamedTuple):
    """The hourly demand on a pool in one dimension. `used` is None if the pool was never used. `capacity` is per hour."""

    pool: Pool
    dimension: str
    used: Series | None
    capacity: float
    leases: int


def hour_of(instant: datetime) -> datetime:
    """Return the start of the hour that contains an instant."""
    return instant.replace(minute=0, second=0, microsecond=0)


def demands(*, until: datetime) -> list[Demand]:
    """Return the demand on every active pool in each dimension, for at most twelve weeks before `until` (a full hour)."""
    since = until - HISTORY
    rows = list(pools().order_by("slug"))
    times, leases = _device_seconds(since, until)
    operations = _operations(since, until)
    begun = _begun([pool.pk for pool in rows])
    found = []
    for pool in rows:
        start = max(since, begun[pool.pk]) if pool.pk in begun else None
        devices = len(pool.devices.all())
        used = {DEVICE_TIME: times[pool.pk], OPERATIONS: operations[pool.pk]}
        for dimension, capacity in (
            (DEVICE_TIME, float(devices * SECONDS)),
            (OPERATIONS, operations_in_hour(pool) * devices),
        ):
            if not capacity and dimension == OPERATIONS:
                continue  # the operation rate of a host is measured by program
            series = (
                series_of_hours(used[dimension], start=start, end=until) if start and start + HOUR <= until else None
            )
            found.append(Demand(pool, dimension, series, capacity, leases[pool.pk]))
    return found


def operations_in_hour(pool: Pool) -> float:
    """Return the peak operations of a device per hour in its fastest precision; 0 if the rate is unknown."""
    if pool.processor is None:
        return 0.0
    target = processor_find(name=pool.processor.name, digest=pool.processor.digest)
    if target is None and pool.processor.name not in targets.names():
        return 0.0
    target = target or targets.load(pool.processor.name)
    fastest = max((peak(target, kind) or 0 for kind in target.matrix.tiles), default=0)
    return float(fastest * SECONDS) * pool.power_percent / 100


def _begun(ids: Sequence[UUID]) -> dict[UUID, datetime]:
    rows = DeviceHour.objects.filter(pool__in=ids).values_list("pool_id").annotate(Min("hour"))
    return dict(rows.order_by())


def _device_seconds(since: datetime, until: datetime) -> tuple[dict[UUID, dict[datetime, float]], dict[UUID, int]]:
    rows = DeviceHour.objects.filter(hour__gte=since, hour__lt=until).values_list("pool_id", "hour", "clock_hz")
    found: dict[UUID, dict[datetime, float]] = defaultdict(lambda: defaultdict(float))
    leases: dict[UUID, int] = defaultdict(int)
    for pool, hour, clock, cycles, count in rows.annotate(all=Sum("cycles"), count=Sum("leases")).order_by():
        found[pool][hour] += max(float(cycles), 0.0) / clock
        leases[pool] += count
    return found, leases


def _operations(since: datetime, until: datetime) -> dict[UUID, dict[datetime, float]]:
    rows = (
        UsageSum.objects.filter(occurred_at__gte=since, occurred_at__lt=until, unused=False)
        .annotate(hour=TruncHour("occurred_at"))
        .values_list("contract_id", "hour")
        .annotate(Sum("operations"))
        .order_by()
    )
    known = list(rows)
    contracts = {contract for contract, _, _ in known}
    of = dict(Contract.objects.filter(pk__in=contracts).values_list("pk", F("pool_id")))
    found: dict[UUID, dict[datetime, float]] = defaultdict(lambda: defaultdict(float))
    for contract, hour, amount in known:
        if contract in of:
            found[of[contract]][hour] += max(float(amount), 0.0)
    return found
