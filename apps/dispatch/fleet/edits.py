"""Single edits of the fleet, each a change of its document as plain data; what they make is checked as a file is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.problems import Problem
from apps.dispatch.fleet.applying import Edit
from apps.fleet.document import DEVICES_MAX

Raw = dict[str, Any]


def site_set(slug: str, facts: Raw) -> Edit:
    """Makes a site or changes its name and time zone."""

    def edit(raw: Raw) -> None:
        raw["sites"][slug] = {**raw["sites"].get(slug, {}), **facts}

    return edit


def site_remove(slug: str) -> Edit:
    """Removes a site; its pools must have gone."""

    def edit(raw: Raw) -> None:
        _known(raw["sites"], slug, "site")
        del raw["sites"][slug]

    return edit


def processor_set(name: str, text: str) -> Edit:
    """Offers a processor of one's own by its file, or describes it anew."""

    def edit(raw: Raw) -> None:
        raw["processors"][name] = {"file": text}

    return edit


def processor_remove(name: str) -> Edit:
    """Offers a processor no more; no pool may have it."""

    def edit(raw: Raw) -> None:
        _known(raw["processors"], name, "processor")
        del raw["processors"][name]

    return edit


def pool_set(slug: str, facts: Raw) -> Edit:
    """Makes a pool, without devices unless `facts` say how many, or changes what `facts` name."""

    def edit(raw: Raw) -> None:
        raw["pools"][slug] = {**raw["pools"].get(slug, {}), **facts}

    return edit


def pool_remove(slug: str) -> Edit:
    """Removes a pool and retires its devices."""

    def edit(raw: Raw) -> None:
        _known(raw["pools"], slug, "pool")
        del raw["pools"][slug]

    return edit


def cost_set(slug: str, facts: Raw) -> Edit:
    """States what a pool's devices cost from an instant on; one that begins at the same instant is replaced."""

    def edit(raw: Raw) -> None:
        pool = _known(raw["pools"], slug, "pool")
        begins = _instant(facts.get("from"))
        pool["cost"] = [one for one in pool["cost"] if begins is None or _instant(one["from"]) != begins] + [facts]

    return edit


def _instant(text: Any) -> datetime | None:
    """The instant that a text states, however it writes the zone; None where it states none, which is refused later."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def devices_add(slug: str, count: int, state: str = "active") -> Edit:
    """Adds so many devices, named by the first numbers that are free."""

    def edit(raw: Raw) -> None:
        pool = _known(raw["pools"], slug, "pool")
        if not 1 <= count <= DEVICES_MAX:
            raise Problem(422, "Impossible count", f"Add 1 to {DEVICES_MAX:,} devices at once.", kind="fleet-file")
        taken, number = {one["name"] for one in pool["devices"]}, 0
        for _ in range(count):
            while f"{slug}-{number}" in taken:
                number += 1
            taken.add(f"{slug}-{number}")
            pool["devices"].append({"name": f"{slug}-{number}", "state": state})

    return edit


def device_set(slug: str, name: str, state: str | None) -> Edit:
    """Gives a device another state; None retires it."""

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
