"""Single edits of the fleet. An edit changes the fleet's document as plain data. The result is checked like a fleet
file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.problems import Problem
from apps.dispatch.fleet.applying import Edit
from apps.fleet.document import DEVICES_MAX

Raw = dict[str, Any]


def site_set(slug: str, facts: Raw) -> Edit:
    """Create a site, or change its name and time zone."""

    def edit(raw: Raw) -> None:
        raw["sites"][slug] = {**raw["sites"].get(slug, {}), **facts}

    return edit


def site_remove(slug: str) -> Edit:
    """Remove a site that has no pools."""

    def edit(raw: Raw) -> None:
        _known(raw["sites"], slug, "site")
        del raw["sites"][slug]

    return edit


def processor_set(name: str, text: str) -> Edit:
    """Offer a custom processor described by a file, or replace the file of a processor that is already offered."""

    def edit(raw: Raw) -> None:
        raw["processors"][name] = {"file": text}

    return edit


def processor_remove(name: str) -> Edit:
    """Stop offering a processor that no pool uses."""

    def edit(raw: Raw) -> None:
        _known(raw["processors"], name, "processor")
        del raw["processors"][name]

    return edit


def pool_set(slug: str, facts: Raw) -> Edit:
    """Create a pool, or change the given facts of an existing pool."""

    def edit(raw: Raw) -> None:
        raw["pools"][slug] = {**raw["pools"].get(slug, {}), **facts}

    return edit


def pool_remove(slug: str) -> Edit:
    """Remove a pool and retire its devices."""

    def edit(raw: Raw) -> None:
        _known(raw["pools"], slug, "pool")
        del raw["pools"][slug]

    return edit


def cost_set(slug: str, facts: Raw) -> Edit:
    """Set the cost of a pool's devices, effective from a given time. Any existing cost that starts at the same time is
    replaced.
    """

    def edit(raw: Raw) -> None:
        pool = _known(raw["pools"], slug, "pool")
        begins = _instant(facts.get("from"))
        pool["cost"] = [one for one in pool["cost"] if begins is None or _instant(one["from"]) != begins] + [facts]

    return edit


def _instant(text: Any) -> datetime | None:
    # None stands for an invalid instant, which is refused when the document is checked.
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def devices_add(slug: str, count: int, state: str = "active") -> Edit:
    """Add devices to a pool, named with the lowest free numbers."""

    def edit(raw: Raw) -> None:
        pool = _known(raw["pools"], slug, "pool")
        if not 1 <= count <= DEVICES_MAX:
            raise Problem(
                422, "Impossible count", f"Enter a number of devices from 1 to {DEVICES_MAX:,}.", kind="fleet-file"
            )
        used, number = {one["name"] for one in pool["devices"]}, 0
        for _ in range(count):
            while f"{slug}-{number}" in used:
                number += 1
            used.add(f"{slug}-{number}")
            pool["devices"].append({"name": f"{slug}-{number}", "state": state})

    return edit


def device_set(slug: str, name: str, state: str | None) -> Edit:
    """Change the state of a device. If `state` is None, the device is retired."""

    def edit(raw: Raw) -> None:
        pool = _known(raw["pools"], slug, "pool")
        known = {one["name"]: one for one in pool["devices"]}
        if name not in known:
            raise Problem(404, "No such device", f"Pool {slug} has no device {name}.", kind="fleet-unknown")
        if state is None:
            pool["devices"].remove(known[name])
        else:
            known[name]["state"] = state

    return edit


def _known(section: Raw, key: str, what: str) -> Any:
    if key not in section:
        known = ", ".join(section) or "none yet"
        raise Problem(404, f"No such {what}", f"There is no {what} {key}. Known: {known}.", kind="fleet-unknown")
    return section[key]
