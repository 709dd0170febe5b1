"""Stores a fleet document: updates the rows, and records the change for a later undo.

Callers must first make sure that no sold time is lost (`apps.dispatch.fleet`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.fleet.document import Difference, Document, difference
from apps.fleet.document import Pool as PoolFacts
from apps.fleet.models import Device, DeviceState, FleetChange, Pool, PoolCost, PoolKind, ProcessorVersion, Site
from compiler import targets

LOCK = 0x7461_6B74  # the advisory lock of the fleet, held until the end of the transaction that changes it
LOCK_TIMEOUT = "30s"


@dataclass
class Written:
    """The devices that a change created or retired."""

    made: list[UUID] = field(default_factory=list)
    retired: list[UUID] = field(default_factory=list)


def fleet_lock() -> None:
    """Lock the fleet against other changes until the transaction ends. Raises Problem(503) if the fleet is still locked
    after `LOCK_TIMEOUT`.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("fleet_lock needs a transaction that holds the lock")
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    except OperationalError as error:
        detail = "Somebody else is changing the fleet at this moment; nothing was changed. Try again in a minute."
        raise Problem(503, "Busy", detail, kind="fleet-busy") from error


@transaction.atomic
def fleet_write(
    *,
    before: Document,
    after: Document,
    moved: int = 0,
    actor: User | None,
    now: datetime,
    note: str = "",
    said: str = "",
) -> FleetChange:
    """Change the fleet from its current state `before` to `after`, and audit the change. The caller must hold the
    fleet's lock.

    `moved` is the number of windows that the caller moves. The caller adds the moves to the returned row.
    """
    change = difference(before, after)
    written = document_store(before=before, after=after, now=now)
    row = FleetChange.objects.create(
        at=now,
        actor=actor,
        note=note[:200],
        summary=(said or change.summary())[:400],
        before=before.to_json(),
        after=after.to_json(),
        before_digest=before.digest,
        after_digest=after.digest,
        made=[str(pk) for pk in written.made],
        retired=[str(pk) for pk in written.retired],
    )
    detail = {"summary": row.summary, "before": before.digest, "after": after.digest, "windows_moved": moved}
    audit_record(action="fleet.change", subject=f"fleet change {row.pk}", actor=actor, now=now, detail=detail)
    return row


def document_store(*, before: Document, after: Document, now: datetime, revive: Sequence[str] = ()) -> Written:
    """Update the rows from their current state `before` to `after`.

    `revive` lists ids of retired devices. A new device reuses the row of the retired device with the same pool and
    name.
    """
    pools_check(after)
    change = difference(before, after)
    _processors(before, after, now)
    _sites(before, after)
    written = Written()
    known = {pool.slug: pool for pool in Pool.objects.select_related("processor")}
    sites = {site.slug: site for site in Site.objects.all()}
    touched = pools_touched(change) | pools_redescribed(before, after)
    revived = {(device.pool_id, device.name): device for device in Device.objects.filter(pk__in=list(revive))}
    for slug in sorted(touched):
        facts = after.pools.get(slug)
        if facts is None:
            _pool_remove(known[slug], written, now)
            continue
        old = before.pools.get(slug)
        keeps = old is not None and slug not in pools_redescribed(before, after) and old.processor == facts.processor
        pool = _pool(slug, facts, known.get(slug), sites[facts.site], keeps=keeps, after=after, now=now)
        _devices(pool, facts, written, revived, now)
        if old is None or old.costs != facts.costs:
            _costs(pool, facts)
    return written


def processor_row(*, name: str, text: str, now: datetime) -> ProcessorVersion:
    """Return the row of a processor's description, creating the row if necessary.

    If `text` is empty, the description that ships with the compiler is used.
    """
    target = targets.parse(text) if text else targets.load(name)
    version, _ = ProcessorVersion.objects.get_or_create(
        name=target.name,
        digest=target.digest,
        defaults={
            "clock_hz": target.clock_hz,
            "memory_bytes": target.memory_bytes,
            "text": text,
            "created_at": now,
        },
    )
    return version


def pools_touched(change: Difference) -> set[str]:
    return {one.place.split(".")[1] for one in change.changes if one.place.startswith("pools.")}


def pools_redescribed(before: Document, after: Document) -> set[str]:
    """Return the slugs of the remaining pools whose processor's file changes."""
    changed = {name for name, text in after.processors.items() if before.processors.get(name, text) != text}
    return {slug for slug, pool in after.pools.items() if slug in before.pools and pool.processor in changed}


def _processors(before: Document, after: Document, now: datetime) -> None:
    for name in {*before.processors, *after.processors}:
        text = after.processors.get(name)
        if text == before.processors.get(name):
            continue
        ProcessorVersion.objects.filter(name=name, is_offered=True).update(is_offered=False)
        if text is not None:
            version = processor_row(name=name, text=text, now=now)
            version.text, version.is_offered = text, True
            version.save(update_fields=["text", "is_offered"])


def _sites(before: Document, after: Document) -> None:
    for slug in {*before.sites, *after.sites}:
        site = after.sites.get(slug)
        if site is None:
            Site.objects.filter(slug=slug).update(is_active=False)
        elif site != before.sites.get(slug):
            facts = {"name": site.name, "time_zone": site.time_zone, "is_active": True}
            Site.objects.update_or_create(slug=slug, defaults=facts)


def _pool(
    slug: str, facts: PoolFacts, row: Pool | None, site: Site, *, keeps: bool, after: Document, now: datetime
) -> Pool:
    # If `keeps` is true, the pool keeps its version of the processor.
    kind = PoolKind.HOST if facts.is_host else PoolKind.SIMULATED
    if row is None:
        row = Pool(slug=slug, kind=kind, processor_class=facts.klass, created_at=now)
    if not keeps:
        text = after.processors.get(facts.processor, "")
        row.processor = None if facts.is_host else processor_row(name=facts.processor, text=text, now=now)
    row.name, row.site, row.is_active, row.power_percent = facts.name, site, True, facts.power_percent
    row.save()
    return row


def pools_check(document: Document) -> None:
    """Raises Problem if a pool's clock would not be a whole number of hertz, or if a pool's kind or price class would
    change.
    """
    for slug, pool in document.pools.items():
        _power_check(slug, pool, document)
    for row in Pool.objects.filter(slug__in=list(document.pools)):
        facts = document.pools[row.slug]
        if (row.is_host, row.processor_class) != (facts.is_host, facts.klass):
            what = "host" if row.is_host else "processor"
            detail = (
                f"pools.{row.slug}: this is a {what} pool of class {row.processor_class} and stays one, because its past is "
                "costed by that. Give the new pool another name."
            )
            raise Problem(409, "A pool's kind and class cannot change", detail, kind="fleet-pool-fixed")


def _power_check(slug: str, pool: PoolFacts, document: Document) -> None:
    if pool.power_percent == 100:
        return
    text = document.processors.get(pool.processor, "")
    clock = (targets.parse(text) if text else targets.load(pool.processor)).clock_hz
    if clock * pool.power_percent % 100:
        said = f"{pool.power_percent} % of {clock:,} Hz is no whole number of cycles per second; choose another share"
        place = f"pools.{slug}.power_percent"
        errors = [{"place": place, "message": f"{said}."}]
        raise Problem(422, "Impossible power setting", f"{place}: {said}.", kind="fleet-file", errors=errors)


def _pool_remove(pool: Pool, written: Written, now: datetime) -> None:
    _retire(list(pool.devices.filter(owned_until__isnull=True)), written, now)
    pool.is_active = False
    pool.save(update_fields=["is_active"])


def _devices(
    pool: Pool, facts: PoolFacts, written: Written, revived: Mapping[tuple[UUID, str], Device], now: datetime
) -> None:
    known = {device.name: device for device in pool.devices.filter(owned_until__isnull=True)}
    _retire([device for name, device in known.items() if name not in facts.devices], written, now)
    fresh, changed = [], []
    for name, state in facts.devices.items():
        device = known.get(name) or revived.get((pool.pk, name))
        if device is None:
            fresh.append(Device(pool=pool, name=name, state=state, owned_from=now))
        elif device.state != state or device.owned_until is not None:
            device.state, device.owned_until = state, None
            changed.append(device)
    written.made += [device.pk for device in Device.objects.bulk_create(fresh)]
    Device.objects.bulk_update(changed, ["state", "owned_until"], batch_size=500)


def _retire(devices: list[Device], written: Written, now: datetime) -> None:
    ids = [device.pk for device in devices]
    Device.objects.filter(pk__in=ids).update(state=DeviceState.DRAINING, owned_until=now)
    written.retired += ids


def _costs(pool: Pool, facts: PoolFacts) -> None:
    pool.costs.all().delete()
    rows: list[dict[str, Any]] = [
        {
            "begins": cost.begins,
            "currency": cost.currency,
            "capital": cost.capital,
            "months": cost.months,
            "watts": cost.watts,
            "energy_price": cost.energy_price,
            "pue": cost.pue,
        }
        for cost in facts.costs
    ]
    PoolCost.objects.bulk_create(PoolCost(pool=pool, **row) for row in rows)
