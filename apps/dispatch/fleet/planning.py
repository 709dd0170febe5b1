"""Computes the consequences of a change to the fleet for windows and contracts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from apps.accounts.problems import Problem
from apps.dispatch.fleet.matching import Booking, Placement, place
from apps.dispatch.models import HOLDING, Lease, LeaseState
from apps.fleet.current import document_now
from apps.fleet.document import Difference, Document, difference, natural
from apps.fleet.models import Device
from apps.fleet.storing import pools_check, pools_redescribed, pools_touched
from apps.sales.models import Contract, ContractState
from apps.timetable.expiry import taken
from apps.timetable.instants import micros_of
from apps.timetable.models import Window, WindowState

NAMED = 10  # promises that the sentence of a refusal lists; its `errors` hold all of them


class Move(NamedTuple):
    """A window that moves to another device, with the names of both devices."""

    window: UUID
    contract: UUID
    pool: str
    before: str
    after: str


class Stay(NamedTuple):
    """A draining device that keeps windows: the number of windows, and the end of the last window."""

    pool: str
    device: str
    windows: int
    until: datetime


class Promise(NamedTuple):
    """A contract that would lose its time because of the change."""

    contract: UUID
    organisation: str
    pool: str
    until: datetime
    is_failure: bool = False  # only windows of failed devices have no place

    def __str__(self) -> str:
        return f"{self.contract} of {self.organisation} on {self.pool} until {self.until:%Y-%m-%d %H:%M} UTC"


@dataclass
class Plan:
    """A change to the fleet and its consequences.

    `after` is the given document, in which spare devices may have replaced failed devices. `lost` lists the windows of
    failed devices for which no other device has room.
    """

    before: Document
    after: Document
    moves: list[Move] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    broken: list[Promise] = field(default_factory=list)
    spares: list[str] = field(default_factory=list)
    holds: set[UUID] = field(default_factory=set)  # reservations of plans without another place; they are released
    lost: list[UUID] = field(default_factory=list)

    @property
    def difference(self) -> Difference:
        return difference(self.before, self.after)

    @property
    def reservations_moved(self) -> int:
        """The number of contracts with at least one window that moves."""
        return len({move.contract for move in self.moves})

    def sentence(self) -> str:
        """Return a sentence such as "2 devices added, 1 drained: 3 reservations move, none is lost."."""
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
        spares = f" Spare devices that replace failed ones: {', '.join(self.spares)}." if self.spares else ""
        effect = f"{moves}, {lost}" if moved or self.broken else "no reservation moves or is lost"
        return f"{self.difference.summary()}: {effect}.{''.join(kept)}{spares}"

    def check(self, *, may_lose: bool = False) -> None:
        """Raises Problem(409) if any contract would lose its time. With `may_lose`, contracts may lose windows on
        failed devices.
        """
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
    """Return the plan for applying the document now. Takes no locks and changes nothing."""
    return plan_make(before=document_now(), after=document, now=now)


def pools_affected(before: Document, after: Document) -> set[str]:
    """Return the slugs of the existing pools whose windows a change may affect."""
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
    """Return the plan for a change.

    `in_use` contains the windows that other transactions have locked. `wanted` is given only for an undo: a map from
    windows to the devices to which the windows return if possible.
    """
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
    # Windows held for plans are included.
    rows = Window.objects.filter(
        device__pool__slug=slug, device__owned_until__isnull=True, state=WindowState.ACTIVE, period__endswith__gt=now
    )
    return list(taken(rows, now=now).select_related("device", "reservation__organisation").order_by("period", "id"))


def _pool_plan(
    plan: Plan, slug: str, windows: list[Window], *, now: datetime, in_use: set[UUID], wanted: Mapping[UUID, str] | None
) -> None:
    if not windows:
        return
    states = plan.after.pools[slug].devices
    begun = in_use | _begun(windows, now)
    booked = [
        Booking(str(one.pk), one.device.name, micros_of(one.start), micros_of(one.end), one.pk not in begun)
        for one in windows
    ]
    wishes = {str(pk): name for pk, name in (wanted or {}).items()}
    spares = _spares(plan, slug) if wanted is None else []
    placement, lost = _placed(booked, states, spares, wishes)
    used = {name for name in placement.moves.values() if name in spares}
    if used:
        _spares_use(plan, slug, used)
    _outcome(plan, slug, windows, placement, lost)


def _placed(
    booked: list[Booking], states: Mapping[str, str], spares: list[str], wishes: dict[str, str]
) -> tuple[Placement, list[Booking]]:
    active = sorted((name for name, state in states.items() if state == "active"), key=natural)
    draining = {name for name, state in states.items() if state == "draining"}
    for count in range(len(spares) + 1):
        placement = place(booked, [*active, *spares[:count]], draining=draining, wanted=wishes)
        lost = [one for one in placement.stays if one.device not in draining]
        if not any(one.is_free for one in lost):
            break
    return placement, lost


def _begun(windows: Iterable[Window], now: datetime) -> set[UUID]:
    # A window cannot move if it has begun or a worker may have one of its leases.
    rows = Lease.objects.filter(window__in=[one.pk for one in windows], state__in=HOLDING)
    worked = rows.exclude(state=LeaseState.PLANNED).order_by().values_list("window_id", flat=True).distinct()
    return {one.pk for one in windows if one.start <= now} | set(worked)


def _spares(plan: Plan, slug: str) -> list[str]:
    old, new = plan.before.pools[slug].devices, plan.after.pools[slug].devices
    if not any(state == "failed" and old.get(name) not in {None, "failed"} for name, state in new.items()):
        return []
    return sorted((name for name, state in new.items() if state == "spare" and old.get(name) == "spare"), key=natural)


def _spares_use(plan: Plan, slug: str, names: set[str]) -> None:
    pool = plan.after.pools[slug]
    devices = {name: "active" if name in names else state for name, state in pool.devices.items()}
    plan.after = replace(plan.after, pools={**plan.after.pools, slug: replace(pool, devices=devices)})
    plan.spares += [f"{slug}.{name}" for name in sorted(names, key=natural)]


def _outcome(plan: Plan, slug: str, windows: list[Window], placement: Placement, lost: list[Booking]) -> None:
    by_key = {str(one.pk): one for one in windows}
    for key, device in placement.moves.items():
        one = by_key[key]
        plan.moves.append(Move(one.pk, one.reservation.contract_id, slug, one.device.name, device))
    states = plan.after.pools[slug].devices
    _stays_add(
        plan, slug, [(one.device, by_key[one.key]) for one in placement.stays if states.get(one.device) == "draining"]
    )
    failed = [by_key[one.key] for one in lost if states.get(one.device) == "failed"]
    others = [by_key[one.key] for one in lost if states.get(one.device) != "failed"]
    plan.lost += [one.pk for one in failed if one.reservation.held_until is None]
    plan.broken += _promises(plan, others, slug)
    plan.broken += [one._replace(is_failure=True) for one in _promises(plan, failed, slug)]


def _stays_add(plan: Plan, slug: str, staying: list[tuple[str, Window]]) -> None:
    by_device: dict[str, list[Window]] = defaultdict(list)
    for device, window in staying:
        by_device[device].append(window)
    for device in sorted(by_device, key=natural):
        windows = by_device[device]
        plan.stays.append(Stay(slug, device, len(windows), max(one.end for one in windows)))


def _promises(plan: Plan, windows: list[Window], slug: str) -> list[Promise]:
    # Time held for a plan is not a promise. If the held time finds no room, the plan's hold is released.
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
    found = {one.contract: one for one in _promises(plan, _sold(slug, now), slug)}
    rows = Contract.objects.filter(pool__slug=slug, state=ContractState.ACTIVE, ends_at__gt=now)
    for contract in rows.select_related("organisation").order_by("id"):
        found.setdefault(contract.pk, Promise(contract.pk, contract.organisation.name, slug, contract.ends_at))
    return list(found.values())


def devices_by_name(slugs: Collection[str]) -> dict[tuple[str, str], UUID]:
    """Return the ids of the devices in use in these pools, by pool and device name."""
    rows = Device.objects.filter(pool__slug__in=slugs, owned_until__isnull=True)
    return {(slug, name): pk for slug, name, pk in rows.values_list("pool__slug", "name", "pk")}
