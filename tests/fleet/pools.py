"""Pools for tests, without any compiler."""

from __future__ import annotations

from datetime import datetime

from apps.fleet import services
from apps.fleet.models import Pool, PoolKind, Site


def pool_make(slug: str, *, devices: int, now: datetime, target: str = "lpu", digest: str = "a" * 64) -> Pool:
    """A simulated pool of a processor version that only the test knows."""
    site, _ = Site.objects.get_or_create(slug="home", defaults={"name": "Home"})
    version = services.processorversion_offer(
        name=target, digest=digest, clock_hz=900_000_000, memory_bytes=230_686_720, now=now
    )
    return services.pool_ensure(
        slug=slug,
        name=slug.title(),
        kind=PoolKind.SIMULATED,
        processor=version,
        processor_class=target,
        site=site,
        devices=devices,
        now=now,
    )


def host_pool_make(slug: str, *, now: datetime) -> Pool:
    """A host pool with one device."""
    site, _ = Site.objects.get_or_create(slug="home", defaults={"name": "Home"})
    return services.pool_ensure(
        slug=slug,
        name=slug.title(),
        kind=PoolKind.HOST,
        processor=None,
        processor_class="host",
        site=site,
        devices=1,
        now=now,
    )
