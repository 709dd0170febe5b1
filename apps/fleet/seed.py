"""Demo data: the fleet of a demo site, read from an ordinary fleet file."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.fleet.current import document_now, document_parse
from apps.fleet.document import Document
from apps.fleet.models import Pool
from apps.fleet.services import shipped_follow
from apps.fleet.storing import fleet_lock, fleet_write

FILE = Path(__file__).with_name("demo.toml")


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Create the missing pools of the demo fleet. Can be repeated safely."""
    fleet_seed(now=now)


def demo_fleet() -> Document:
    """Return the demo fleet's document."""
    return document_parse(FILE.read_bytes())


@transaction.atomic
def fleet_seed(*, now: datetime) -> None:
    """Add the file's pools that never existed in this installation, with their sites. Existing and removed pools do not
    change.
    """
    fleet_lock()
    shipped_follow(now=now)
    before, wanted = document_now(), demo_fleet()
    there = set(Pool.objects.values_list("slug", flat=True))
    pools = {slug: pool for slug, pool in wanted.pools.items() if slug not in there}
    sites = {pool.site: wanted.sites[pool.site] for pool in pools.values()}
    after = replace(before, sites={**sites, **before.sites}, pools={**before.pools, **pools})
    if after != before:
        fleet_write(before=before, after=after, actor=None, now=now, note=FILE.name)
