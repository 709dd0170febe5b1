"""What a change of the fleet means for what is sold: which windows move where, which stay, which promises would break."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from apps.accounts.problems import Problem
from apps.dispatch.fleet.matching import Booked, Settled, settle
from apps.dispatch.models import HOLDING, Lease, LeaseState
from apps.fleet.current import document_now
from apps.fleet.document import Difference, Document, difference, natural
from apps.fleet.models import Device
from apps.fleet.storing import pools_check, pools_redescribed, pools_touched
from apps.sales.models import Contract, ContractState
from apps.timetable.expiry import taken
from apps.timetable.instants import micros_of
from apps.timetable.models import Window, WindowState

NAMED = 10  # promises that a refusal spells out; all of them stand in its `errors`


class Move(NamedTuple):
    """A window that changes its device, by the devices' names."""

    window: UUID
    contract: UUID
    pool: str
    before: str
    after: str


class Stay(NamedTuple):
    """A draining device that keeps windows, and until when."""

    pool: str
    device: str
    windows: int
    until: datetime


class Promise(NamedTuple):
    """A contract that the change would break."""

    contract: UUID
    organisation: str
    pool: str
    until: datetime
    is_failure: bool = False  # only windows of devices that failed have no place

    def __str__(self) -> str:
        return f"{self.contract} of {self.organisation} on {self.pool} until {self.until:%Y-%m-%d %H:%M} UTC"


@dataclass
class Plan:
    """A change of the fleet and what follows from it. `after` is what will run: the document that was given, in which
    spare devices have taken the place of failed ones. `lost`: windows of failed devices that find no place."""

    before: Document
    after: Document
    moves: list[Move] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    broken: list[Promise] = field(default_factory=list)
    spares: list[str] = field(default_factory=list)
    holds: set[UUID] = field(default_factory=set)  # reservations that are only held and have no other place: given up
    lost: list[UUID] = field(default_factory=list)

    @property
    def difference(self) -> Difference:
        """What changes, as data."""
        return difference(self.before, self.after)

    @property
    def reservations_moved(self) -> int:
        """Contracts of which a window moves."""
        return len({move.contract for move in self.moves})

    def sentence(self) -> str:
        """Such as "2 devices added, 1 drained: 3 reservations move, none is lost."."""
        if not self.difference:
            return "No difference."
        moved = self.reservations_moved
        moves = "no reservation moves" if not moved else f"{moved:,} reservation{'s move' if moved > 1 else ' moves'}"
        lost = f"{len(self.broken):,} would be lost" if self.broken else "none is lost"
        kept = [
            f" {stay.pool}.{stay.device} keeps {stay.windows:,} window{'s' if stay.windows > 1 else ''} until "
            f"{stay.until:%Y-%m-%d %H:%M} UTC."
            for stay in self.stays
        ]
        spares = f" In service instead of failed devices: {', '.join(self.spares)}." if self.spares else ""
        return f"{self.difference.summary()}: {moves}, {lost}.{''.join(kept)}{spares}"

    def check(self, *, may_lose: bool = False) -> None:
        """Raises Problem(409), which names the contracts, where a promise would break. `may_lose`: what failed devices held is
        lost and that is recorded."""
        broken = [one for one in self.broken if not (may_lose and one.is_failure)]
        if not broken:
            return
        named = "; ".join(str(one) for one in broken[:NAMED])
        more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
        count = len(broken)
        raise Problem(
            409,
            "Promises would break",
            f"{count:,} contract{'s hold' if count > 1 else ' holds'} time that has no other place: {named}{more}. Drain "
            "the devices instead, add devices to the pool first, or wait until the contracts have ended. Nothing changed.",
            kind="fleet-promises",
            errors=[
                {
                    "contract": str(one.contract),
                    "organisation": one.organisation,
                    "pool": one.pool,
                    "until": one.until.isoformat(),
                }
                for one in broken
            ],
        )


def fleet_preview(*, document: Document, now: datetime) -> Plan:
    """What applying the document would do at this moment; takes no lock and changes nothing."""
    return plan_make(before=document_now(), after=document, now=now)


def pools_affected(before: Document, after: Document) -> set[str]:
    """Pools that run and whose windows a change may touch."""
    changed = pools_touched(difference(before, after)) | pools_redescribed(before, after)
    return {slug for slug in changed if slug in before.pools}


def plan_make(
    *,
    before: Document,
    after: Document,
    now: datetime,
    in_use: Collection[UUID] = (),
    wanted: Mapping[UUID, str] | None = None,
) -> Plan:
    """The plan of a change. `in_use` are windows that somebody is working on. `wanted`: of an undo, the devices, by name, to
    which windows return if they can; the fleet is then `after` to the letter, and no spare comes into service."""
    pools_check(after)
    plan = Plan(before, after)
    for slug in sorted(pools_affected(before, after)):
        old, new = before.pools[slug], after.pools.get(slug)
        runs_on = [(one.processor, one.power_percent) for one in (old, new) if one is not None]
        if len(set(runs_on)) > 1 or new is None or slug in pools_redescribed(before, after):
            plan.broken += _promises_of(plan, slug, now)
        elif new.devices != old.devices:
            _pool_plan(plan, slug, _sold(slug, now), now=now, in_use=set(in_use), wanted=wanted)
    return plan


def _sold(slug: str, now: datetime) -> list[Window]:
    """Windows of the pool that have not ended, by start: of contracts, and those that are held for plans."""
    rows = Window.objects.filter(
        device__pool__slug=slug, device__owned_until__isnull=True, state=WindowState.ACTIVE, period__endswith__gt=now
    )
    return list(taken(rows, now=now).select_related("device", "reservation__organisation").order_by("period", "id"))


def _pool_plan(
    plan: Plan, slug: str, windows: list[Window], *, now: datetime, in_use: set[UUID], wanted: Mapping[UUID, str] | None
) -> None:
    """Finds every window of the pool a device; spares come into service for failed devices, as few as are needed."""
    if not windows:
        return
    states = plan.after.pools[slug].devices
    begun = in_use | _begun(windows, now)
    booked = [
        Booked(str(one.pk), one.device.name, micros_of(one.start), micros_of(one.end), one.pk not in begun)
        for one in windows
    ]
    wishes = {str(pk): name for pk, name in (wanted or {}).items()}
    active = sorted((name for name, state in states.items() if state == "active"), key=natural)
    draining = {name for name, state in states.items() if state == "draining"}
    spares = _spares(plan, slug) if wanted is None else []
    for count in range(len(spares) + 1):
        settled = settle(booked, [*active, *spares[:count]], draining=draining, wanted=wishes)
        lost = [one for one in settled.stays if one.device not in draining]
        if not any(one.is_free for one in lost):
            break
    used = {name for name in settled.moves.values() if name in spares}
    if used:
        _spares_use(plan, slug, used)
    _outcome(plan, slug, windows, settled, lost)


def _begun(windows: Iterable[Window], now: datetime) -> set[UUID]:
    """Windows that stay on their device: begun, or with leases that a worker may have."""
    rows = Lease.objects.filter(window__in=[one.pk for one in windows], state__in=HOLDING)
    worked = rows.exclude(state=LeaseState.PLANNED).order_by().values_list("window_id", flat=True).distinct()
    return {one.pk for one in windows if one.start <= now} | set(worked)


def _spares(plan: Plan, slug: str) -> list[str]:
    """Spare devices that may come into service: those of a pool in which a device fails with this change."""
    old, new = plan.before.pools[slug].devices, plan.after.pools[slug].devices
    if not any(state == "failed" and old.get(name) not in {None, "failed"} for name, state in new.items()):
        return []
    return sorted((name for name, state in new.items() if state == "spare" and old.get(name) == "spare"), key=natural)


def _spares_use(plan: Plan, slug: str, names: set[str]) -> None:
    pool = plan.after.pools[slug]
    devices = {name: "active" if name in names else state for name, state in pool.devices.items()}
    plan.after = replace(plan.after, pools={**plan.after.pools, slug: replace(pool, devices=devices)})
    plan.spares += [f"{slug}.{name}" for name in sorted(names, key=natural)]


def _outcome(plan: Plan, slug: str, windows: list[Window], settled: Settled, lost: list[Booked]) -> None:
    by_key = {str(one.pk): one for one in windows}
    for key, device in settled.moves.items():
        one = by_key[key]
        plan.moves.append(Move(one.pk, one.reservation.contract_id, slug, one.device.name, device))
    kept: dict[str, list[Window]] = defaultdict(list)
    states = plan.after.pools[slug].devices
    for stay in settled.stays:
        if states.get(stay.device) == "draining":
            kept[stay.device].append(by_key[stay.key])
    for device in sorted(kept, key=natural):
        plan.stays.append(Stay(slug, device, len(kept[device]), max(one.end for one in kept[device])))
    gone = [by_key[one.key] for one in lost if states.get(one.device) == "failed"]
    plan.lost += [one.pk for one in gone if one.reservation.held_until is None]
    others = [by_key[one.key] for one in lost if states.get(one.device) != "failed"]
    plan.broken += _promises(plan, others, slug) + [
        one._replace(is_failure=True) for one in _promises(plan, gone, slug)
    ]


def _promises(plan: Plan, windows: list[Window], slug: str) -> list[Promise]:
    """One for each contract, with the end of its last window. Time that is held for a plan is nobody's promise yet: where it
    has no other place it is given up, and does not stand in the way of a change."""
    until: dict[UUID, datetime] = {}
    names: dict[UUID, str] = {}
    for one in windows:
        if one.reservation.held_until is not None:
            plan.holds.add(one.reservation_id)
            continue
        contract = one.reservation.contract_id
        until[contract] = max(until.get(contract, one.end), one.end)
        names[contract] = one.reservation.organisation.name
    return [Promise(contract, names[contract], slug, until[contract]) for contract in sorted(until, key=str)]


def _promises_of(plan: Plan, slug: str, now: datetime) -> list[Promise]:
    """Every contract that holds the pool's time to come, or that may still run on it."""
    found = {one.contract: one for one in _promises(plan, _sold(slug, now), slug)}
    rows = Contract.objects.filter(pool__slug=slug, state=ContractState.ACTIVE, ends_at__gt=now)
    for contract in rows.select_related("organisation").order_by("id"):
        found.setdefault(contract.pk, Promise(contract.pk, contract.organisation.name, slug, contract.ends_at))
    return list(found.values())


def devices_by_name(slugs: Collection[str]) -> dict[tuple[str, str], UUID]:
    """The ids of the owned devices of these pools, by pool and name."""
    rows = Device.objects.filter(pool__slug__in=slugs, owned_until__isnull=True)
    return {(slug, name): pk for slug, name, pk in rows.values_list("pool__slug", "name", "pk")}
