"""Build the fleet documents that what-ifs and capacity plans propose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import Count

from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits
from apps.fleet.current import document_check, document_now
from apps.fleet.document import Document, natural
from apps.fleet.document.model import HOST
from apps.fleet.models import DeviceState, FleetChange
from apps.reports.changes import Change
from apps.reports.models import CapacityPlan, WhatIf
from apps.timetable.models import Window, WindowState

Raw = dict[str, Any]
Held = Mapping[tuple[str, str], int]
KINDS = ("spare", "power", "short")


def windows_held(*, now: datetime) -> dict[tuple[str, str], int]:
    """Return the number of future windows of each device, by pool and device name."""
    rows = Window.objects.filter(state=WindowState.ACTIVE, period__endswith__gt=now, device__owned_until__isnull=True)
    counted = rows.order_by().values_list("device__pool__slug", "device__name").annotate(count=Count("id"))
    return {(slug, name): count for slug, name, count in counted}


def is_of_the_fleet(change: Change) -> bool:
    """Return whether the change affects the fleet."""
    return bool(any(change.devices.values()) or change.failed_sites or change.power_percent != 100)


def document_of_what_if(what_if: WhatIf, *, now: datetime) -> Document:
    """Return the current fleet as it would be after applying the change of a what-if. Raises Problem(422) if the change
    is impossible.
    """
    change = Change(**what_if.change)
    if not is_of_the_fleet(change):
        detail = "This what-if changes only demand or prices, not the fleet, so there is nothing to apply."
        raise Problem(422, "Nothing to apply", detail, kind="proposal-empty")
    held = windows_held(now=now)

    def edit(raw: Raw) -> None:
        processors = [slug for slug, one in raw["pools"].items() if one["processor"] != HOST]
        changed = {slug for slug, count in change.devices.items() if count}
        for slug in sorted(changed | set(processors if change.power_percent != 100 else [])):
            _unchanged_check(raw, slug, what_if.asked_at)
        for slug, count in sorted(change.devices.items()):
            _count(raw, slug, count, held)
        for slug in change.failed_sites:
            _fail(raw, slug)
        if change.power_percent != 100:
            for pool in sorted(processors):
                _power(raw, pool, Fraction(change.power_percent, 100))

    return _edited(edit)


def document_of_plan(plan: CapacityPlan, *, pool: str, kind: str, now: datetime) -> Document:
    """Return the current fleet as it would be after applying one proposal of a capacity plan. Raises Problem(404) if
    the plan has no such proposal.
    """
    pools = {one["pool"]: one for one in (plan.result or {}).get("pools", [])}
    found = next((one for one in pools.get(pool, {}).get("proposals", []) if one["kind"] == kind), None)
    if found is None:
        raise Problem(
            404,
            "No such proposal",
            f"This plan has no proposal of kind {kind} for pool {pool}.",
            kind="proposal-unknown",
        )
    held = windows_held(now=now)

    def edit(raw: Raw) -> None:
        _known(raw, pool)
        _unchanged_check(raw, pool, plan.asked_at)
        if kind == "short":
            _serve(raw, pool, found["devices"])
        elif kind == "power":
            _power(raw, pool, Fraction(found["share"]))
        else:
            for name in _idlest(raw, pool, found["devices"], held):
                edits.device_set(pool, name, DeviceState.SPARE)(raw)

    return _edited(edit)


def _edited(edit: Callable[[Raw], None]) -> Document:
    raw = document_now().to_json()
    edit(raw)
    return document_check(raw)


def _count(raw: Raw, slug: str, count: int, held: Held) -> None:
    if not count:
        return
    _known(raw, slug)
    if count > 0:
        edits.devices_add(slug, count)(raw)
        return
    for name in _idlest(raw, slug, -count, held):
        edits.device_set(slug, name, None)(raw)


def _serve(raw: Raw, slug: str, count: int) -> None:
    spares = sorted(
        (one["name"] for one in raw["pools"][slug]["devices"] if one["state"] == DeviceState.SPARE), key=natural
    )
    for name in spares[:count]:
        edits.device_set(slug, name, DeviceState.ACTIVE)(raw)
    if count > len(spares):
        edits.devices_add(slug, count - len(spares))(raw)


def _idlest(raw: Raw, slug: str, count: int, held: Held) -> list[str]:
    active = [one["name"] for one in raw["pools"][slug]["devices"] if one["state"] == DeviceState.ACTIVE]
    if count > len(active):
        detail = f"Pool {slug} now has {len(active):,} active devices, so {count:,} cannot be removed. Start a new comparison."
        raise Problem(422, "Too few devices", detail, kind="proposal-outdated")
    ordered = sorted(active, key=natural, reverse=True)
    return sorted(ordered, key=lambda name: held.get((slug, name), 0))[:count]


def _fail(raw: Raw, site: str) -> None:
    for pool in raw["pools"].values():
        if pool["site"] == site:
            for device in pool["devices"]:
                device["state"] = DeviceState.FAILED.value


def _power(raw: Raw, slug: str, share: Fraction) -> None:
    setting = raw["pools"][slug]["power_percent"] * share
    if setting.denominator != 1 or not 1 <= setting <= 100:
        detail = (
            f"The power of pool {slug} is now {raw['pools'][slug]['power_percent']} %. The change would make it "
            f"{float(setting):g} %. "
            "Power settings are whole numbers from 1 to 100."
        )
        raise Problem(422, "No such power setting", detail, kind="proposal-outdated")
    raw["pools"][slug]["power_percent"] = int(setting)


def _unchanged_check(raw: Raw, slug: str, since: datetime) -> None:
    change = FleetChange.objects.filter(at__gt=since).order_by("at", "id").first()
    then = change.before["pools"].get(slug) if change is not None else None
    if then is not None and slug in raw["pools"] and _served(then) != _served(raw["pools"][slug]):
        count, power = _served(raw["pools"][slug])
        devices = "1 active device" if count == 1 else f"{count:,} active devices"
        detail = (
            f"Pool {slug} has changed since this result was calculated: it now has {devices} at {power} % power. "
            "Start again."
        )
        raise Problem(422, "The pool has changed", detail, kind="proposal-outdated")


def _served(pool: Raw) -> tuple[int, int]:
    active = sum(one["state"] == DeviceState.ACTIVE for one in pool["devices"])
    return active, pool["power_percent"]


def _known(raw: Raw, slug: str) -> None:
    if slug not in raw["pools"]:
        detail = f"Pool {slug} no longer exists. Start a new comparison."
        raise Problem(422, "Pool no longer exists", detail, kind="proposal-outdated")
