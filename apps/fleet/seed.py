"""The pools of a demo site: two deterministic ones of different processor versions, and this machine's own CPU."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.models import Organisation, User
from apps.fleet import services
from apps.fleet.models import PoolKind, Site
from compiler import targets

SIMULATED = [("lpu-a", "Pool A", "lpu", 2), ("lpu2-b", "Pool B", "lpu2", 1)]


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Make what is missing; safe to run again."""
    fleet_seed(now=now)


def fleet_seed(*, now: datetime) -> None:
    """The site and its pools; needs no organisation."""
    site, _ = Site.objects.get_or_create(slug="home", defaults={"name": "Home", "time_zone": "UTC"})
    for slug, name, target_name, devices in SIMULATED:
        target = targets.load(target_name)
        version = services.processorversion_offer(
            name=target.name,
            digest=target.digest,
            clock_hz=target.clock_hz,
            memory_bytes=target.memory_bytes,
            now=now,
        )
        services.pool_ensure(
            slug=slug,
            name=name,
            kind=PoolKind.SIMULATED,
            processor=version,
            processor_class=target.price_class,
            site=site,
            devices=devices,
            now=now,
        )
    services.pool_ensure(
        slug="host-cpu",
        name="Host CPU",
        kind=PoolKind.HOST,
        processor=None,
        processor_class="host",
        site=site,
        devices=1,
        now=now,
    )
