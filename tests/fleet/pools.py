"""Pools for tests, without any compiler."""

from __future__ import annotations

from datetime import datetime

from apps.fleet.models import Device, Pool, PoolKind, ProcessorVersion, Site


def pool_make(slug: str, *, devices: int, now: datetime, target: str = "lpu", digest: str = "a" * 64) -> Pool:
    """A simulated pool of a processor version that only the test knows; an existing one gets that processor."""
    version, _ = ProcessorVersion.objects.get_or_create(
        name=target, digest=digest, defaults={"clock_hz": 900_000_000, "memory_bytes": 230_686_720, "created_at": now}
    )
    return _pool(slug, PoolKind.SIMULATED, version, target, devices, now)


def host_pool_make(slug: str, *, now: datetime) -> Pool:
    """A host pool with one device."""
    return _pool(slug, PoolKind.HOST, None, "host", 1, now)


def _pool(slug: str, kind: PoolKind, version: ProcessorVersion | None, klass: str, devices: int, now: datetime) -> Pool:
    site, _ = Site.objects.get_or_create(slug="home", defaults={"name": "Home"})
    made = {"name": slug.title(), "kind": kind, "processor_class": klass, "site": site, "created_at": now}
    made["processor"] = version
    pool, _ = Pool.objects.update_or_create(slug=slug, defaults={"processor": version}, create_defaults=made)
    for number in range(devices):
        Device.objects.get_or_create(pool=pool, name=f"{slug}-{number}", defaults={"owned_from": now})
    return pool
