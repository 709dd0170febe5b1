"""What changes the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.fleet.models import Device, HostMeasurement, Pool, PoolKind, ProcessorVersion, Site, WorkerHost


def processorversion_offer(
    *, name: str, digest: str, clock_hz: int, memory_bytes: int, now: datetime
) -> ProcessorVersion:
    """The row of a target's present description, made when it is new."""
    version, _ = ProcessorVersion.objects.get_or_create(
        name=name,
        digest=digest,
        defaults={"clock_hz": clock_hz, "memory_bytes": memory_bytes, "created_at": now},
    )
    return version


@transaction.atomic
def pool_ensure(
    *,
    slug: str,
    name: str,
    kind: PoolKind,
    processor: ProcessorVersion | None,
    processor_class: str,
    site: Site,
    devices: int,
    now: datetime,
) -> Pool:
    """The pool `slug` with at least that many devices; an existing pool moves to the given processor version."""
    pool, _ = Pool.objects.get_or_create(
        slug=slug,
        defaults={
            "name": name,
            "kind": kind,
            "processor": processor,
            "processor_class": processor_class,
            "site": site,
            "created_at": now,
        },
    )
    if pool.processor != processor:
        pool.processor = processor
        pool.save(update_fields=["processor"])
    for number in range(devices):
        Device.objects.get_or_create(pool=pool, name=f"{slug}-{number}", defaults={"owned_from": now})
    return pool


def device_activate(*, device: Device, is_active: bool) -> Device:
    """Switch a device on or off for new windows; windows already sold stay where they are."""
    if is_active and device.owned_until is not None:
        raise Problem(
            409, "No longer owned", f"{device.name} was given away; add another device instead.", kind="pool-retired"
        )
    device.is_active = is_active
    device.save(update_fields=["is_active"])
    return device


@transaction.atomic
def device_retire(*, device: Device, actor: User, now: datetime) -> Device:
    """The device is owned no more from `now` on: it costs nothing further and is never sold again.

    Raises Problem while a window that was sold on it is still to end.
    """
    held = Device.objects.select_for_update().get(pk=device.pk)
    if held.owned_until is not None:
        raise Problem(409, "No longer owned", f"{held.name} was given away already.", kind="pool-retired")
    sold = held.windows.filter(state="active", period__endswith__gt=now).order_by("-period__endswith").first()
    if sold is not None:
        until = f"{sold.end:%Y-%m-%d %H:%M} UTC"
        raise Problem(
            409,
            "Still sold",
            f"{held.name} holds windows until {until}; take it out of sale and wait.",
            kind="pool-still-sold",
        )
    held.is_active, held.owned_until = False, now
    held.save(update_fields=["is_active", "owned_until"])
    audit_record(action="device.retire", subject=f"device {held.name}", actor=actor, now=now)
    return held


def workerhost_seen(*, name: str, pool_slug: str, concurrency: int, is_start: bool, now: datetime) -> WorkerHost:
    """Record the heartbeat of a worker host; `is_start` marks the first beat of a new process."""
    pool = Pool.objects.filter(slug=pool_slug, is_active=True).first()
    if pool is None:
        known = ", ".join(Pool.objects.filter(is_active=True).values_list("slug", flat=True)) or "none yet"
        raise Problem(
            404, "No such pool", f"There is no active pool '{pool_slug}'. Known pools: {known}.", kind="pool-unknown"
        )
    host, made = WorkerHost.objects.get_or_create(
        name=name, pool=pool, defaults={"concurrency": concurrency, "started_at": now, "last_seen": now}
    )
    if not made:
        changed = {"last_seen": now, "concurrency": concurrency} | ({"started_at": now} if is_start else {})
        WorkerHost.objects.filter(pk=host.pk).update(**changed)
        host.refresh_from_db()
    return host


def hostmeasurement_record(
    *, pool: Pool, program_digest: str, durations_ns: Sequence[int], hardware: str, now: datetime
) -> HostMeasurement:
    """Store the percentiles (nearest rank) of measured durations of single executions, in nanoseconds."""
    if not pool.is_host:
        raise ValueError(f"{pool.slug} is deterministic: its latency is proven, not measured")
    ordered = sorted(durations_ns)
    if not ordered:
        raise ValueError("a measurement needs at least one execution")
    return HostMeasurement.objects.create(
        pool=pool,
        program_digest=program_digest,
        samples=len(ordered),
        p50_ns=_percentile(ordered, 50),
        p95_ns=_percentile(ordered, 95),
        p99_ns=_percentile(ordered, 99),
        hardware=hardware[:200],
        measured_at=now,
    )


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Nearest rank: the smallest value that at least `percent` per cent do not exceed."""
    rank = -(-percent * len(ordered) // 100)
    return max(1, ordered[max(rank, 1) - 1])
