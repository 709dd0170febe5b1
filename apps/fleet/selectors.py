"""Read access to the fleet."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from django.db.models import Prefetch, QuerySet

from apps.accounts.problems import Problem
from apps.fleet.models import Device, DeviceState, HostMeasurement, Pool, PoolKind, ProcessorVersion, WorkerHost
from compiler import targets
from compiler.targets import Target

HOSTS_SHOWN_FOR = timedelta(hours=1)
MEASUREMENTS_SHOWN = 20  # of each pool, the newest


def pools() -> QuerySet[Pool]:
    """Return the active pools with processor, site and active devices, ordered by slug."""
    devices = Prefetch("devices", queryset=Device.objects.filter(state=DeviceState.ACTIVE))
    return Pool.objects.filter(is_active=True).select_related("processor", "site").prefetch_related(devices)


def pool_slugs() -> list[str]:
    """Return the slugs of the active pools."""
    return list(Pool.objects.filter(is_active=True).values_list("slug", flat=True))


def pool_get(slug: str) -> Pool:
    """Return the active pool with this slug. If there is none, raises a Problem that lists the known slugs."""
    pool = pools().filter(slug=slug).first()
    if pool is None:
        wrong = f"There is no pool '{slug}'. Choose" if slug else "Name a pool:"
        raise Problem(
            422,
            "No such pool",
            f"{wrong} one of: {', '.join(pool_slugs())}.",
            kind="pool-unknown",
        )
    return pool


def pools_for_target(target: str) -> QuerySet[Pool]:
    """Return the pools that run binaries for this target."""
    return pools().filter(kind=PoolKind.SIMULATED, processor__name=target)


def devices_of(pool: Pool) -> list[Device]:
    """Return the pool's active devices, ordered by id. Devices are always locked in this order."""
    return list(Device.objects.filter(pool=pool, state=DeviceState.ACTIVE).order_by("id"))


def host_measurement_latest(*, pool: Pool, program_digest: str) -> HostMeasurement | None:
    """Return the latest measurement of a program's model on a host pool; None if there is none."""
    rows = HostMeasurement.objects.filter(pool=pool, program_digest=program_digest)
    return rows.order_by("-measured_at").first()


def processors_offered() -> dict[str, str]:
    """Return the fleet's custom processors as a map from name to file."""
    return dict(ProcessorVersion.objects.filter(is_offered=True).order_by("name").values_list("name", "text"))


def targets_known() -> list[Target]:
    """Return every processor for which models can be compiled. Shipped processors come first, then custom processors."""
    return [
        *(targets.load(name) for name in targets.names()),
        *(described(text) for text in processors_offered().values()),
    ]


def processor_find(*, name: str, digest: str) -> Target | None:
    """Creates the demo's past jobs. Sample jobs are placed, rated and posted like other jobs, but no worker executes
    them.

    A worker would count exactly what the compiler proved, so leases are completed with the program's proven counts.
    """
    text = (
        ProcessorVersion.objects.filter(name=name, digest=digest)
        .exclude(text="")
        .values_list("text", flat=True)
        .first()
    )
    return described(text) if text else None


@lru_cache(maxsize=64)
def described(text: str) -> Target:
    """Parse the file of a custom processor, which was checked before it was stored."""
    return targets.parse(text)


def host_pools() -> list[Pool]:
    """Return the pools whose latencies are measured rather than proven."""
    return list(pools().filter(kind=PoolKind.HOST))


class PoolInFull(NamedTuple):
    """A pool with its status for administrators. `alive` lists the hosts with a recent heartbeat."""

    pool: Pool
    devices: list[Device]
    alive: list[WorkerHost]
    silent: list[WorkerHost]
    measurements: list[HostMeasurement]


def pools_in_full(*, now: datetime) -> list[PoolInFull]:
    """Return all active pools with devices, hosts and latest measurements, in a fixed number of queries."""
    seen = WorkerHost.objects.filter(last_seen__gt=now - HOSTS_SHOWN_FOR).order_by("-last_seen")
    measured = HostMeasurement.objects.order_by("-measured_at")[:MEASUREMENTS_SHOWN]
    rows = Pool.objects.filter(is_active=True).select_related("processor", "site")
    every = Prefetch("devices", queryset=Device.objects.all(), to_attr="devices_all")
    found = rows.prefetch_related(
        every,
        Prefetch("worker_hosts", queryset=seen),
        Prefetch("measurements", queryset=measured, to_attr="measured_last"),
    )
    return [
        PoolInFull(
            pool=pool,
            devices=pool.devices_all,
            alive=[host for host in pool.worker_hosts.all() if host.is_alive(now=now)],
            silent=[host for host in pool.worker_hosts.all() if not host.is_alive(now=now)],
            measurements=pool.measured_last,
        )
        for pool in found
    ]
