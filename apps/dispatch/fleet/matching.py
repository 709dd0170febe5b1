"""On which devices of a pool do windows go when some devices leave? Every window keeps its instants. Pure.

Windows that have begun stay where they are; all others may change their device. Windows to come on k devices can be
placed if and only if at no instant more than k of them (with those that have begun) overlap: a sweep by start that gives
each the next free device finds a placement whenever there is one. Where there is none, and some windows may stay on the
device that leaves (it drains), the sweep leaves the fewest there: at each overflow the one that ends last.

First it is tried without touching the windows of the devices that stay, which is what a customer's page shows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NOWHERE = ""


class Booked(NamedTuple):
    """A window: its key, its device, [start, end) in microseconds, and whether it may change its device."""

    key: str
    device: str
    start: int
    end: int
    is_free: bool = True


@dataclass
class Settled:
    """Where windows go (key -> device) when it is not where they are, and which find no place and stay."""

    moves: dict[str, str] = field(default_factory=dict)
    stays: list[Booked] = field(default_factory=list)


def settle(
    booked: Iterable[Booked],
    active: Sequence[str],
    *,
    draining: Collection[str] = (),
    wanted: Mapping[str, str] | None = None,
) -> Settled:
    """Places every window on an active device, at its own instants, or leaves it on one of `draining` devices; what stays
    anywhere else has no place. `wanted`: the device, active or draining, to which a window returns if that is free.

    Of equally good answers the one that moves only windows of leaving devices is taken; equals are decided by the order
    of `active`.
    """
    rows = sorted(booked, key=lambda one: (one.start, one.end, one.key))
    homes = {one.key: one.device for one in rows}
    if wanted:
        rows = _returned(rows, wanted, {*active, *draining})
    settled = _direct(rows, active, set(draining))
    if _stuck(settled, draining)[1]:
        swept = _sweep(rows, active, set(draining))
        if swept is not None and _stuck(swept, draining) < _stuck(settled, draining):
            settled = swept
    ends = {one.key: settled.moves.get(one.key, one.device) for one in rows}
    settled.moves = {key: device for key, device in ends.items() if device not in {homes[key], NOWHERE}}
    return settled


def _returned(rows: Sequence[Booked], wanted: Mapping[str, str], devices: set[str]) -> list[Booked]:
    """The windows as if those that are wanted elsewhere had gone there, where nothing else is; one whose own device is
    taken by that is nowhere."""
    may = {one.key: one for one in rows if one.is_free and wanted.get(one.key) in devices}
    calendars = _calendars((one for one in rows if one.key not in may), [*devices, *(one.device for one in rows)])
    back: dict[str, str] = {}
    for goals in (wanted, {key: one.device for key, one in may.items()}):
        for key, one in may.items():
            if key not in back and calendars[goals[key]].is_open(one.start, one.end):
                calendars[goals[key]].add(one.start, one.end)
                back[key] = goals[key]
    return [one._replace(device=back.get(one.key, NOWHERE)) if one.key in may else one for one in rows]


def _stuck(settled: Settled, draining: Collection[str]) -> tuple[int, int]:
    """How many windows have no place, and how many of those that may move stay anywhere."""
    free = [one for one in settled.stays if one.is_free]
    return sum(one.device not in draining for one in free), len(free)


class _Calendar:
    """What a device holds, sorted; its windows never overlap."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def is_open(self, start: int, end: int) -> bool:
        if not self.rows:
            return True
        place = bisect_left(self.rows, (start, start))
        return (place == 0 or self.rows[place - 1][1] <= start) and (
            place == len(self.rows) or self.rows[place][0] >= end
        )

    def add(self, start: int, end: int) -> None:
        insort(self.rows, (start, end))


def _calendars(rows: Iterable[Booked], active: Sequence[str]) -> dict[str, _Calendar]:
    calendars = {device: _Calendar() for device in active}
    for one in rows:
        if one.device in calendars:
            calendars[one.device].add(one.start, one.end)
    return calendars


def _direct(rows: Sequence[Booked], active: Sequence[str], draining: set[str]) -> Settled:
    """Only windows of leaving devices move, those that must and the longest first."""
    calendars = _calendars(rows, active)
    found = Settled()
    leaving = [one for one in rows if one.device not in calendars]
    for one in sorted(leaving, key=lambda one: (one.device in draining, one.start - one.end, one.start, one.key)):
        device = next((name for name in active if calendars[name].is_open(one.start, one.end)), None)
        if device is None or not one.is_free:
            found.stays.append(one)
            continue
        calendars[device].add(one.start, one.end)
        found.moves[one.key] = device
    return found


def _sweep(rows: Sequence[Booked], active: Sequence[str], draining: set[str]) -> Settled | None:
    """Every window to come may move. None where a window of a device that stays finds no place."""
    fixed = _calendars((one for one in rows if not one.is_free), active)
    homes = _calendars((one for one in rows if one.is_free), active)
    holds: dict[str, Booked | None] = dict.fromkeys(active)
    found = Settled(stays=[one for one in rows if not one.is_free and one.device not in fixed])
    for one in (row for row in rows if row.is_free):
        here = [name for name in active if fixed[name].is_open(one.start, one.end)]
        open_now = [name for name in here if (held := holds[name]) is None or held.end <= one.start]
        device = _choice(one, open_now, homes) or _evict(one, here, holds, found, draining)
        if device is None and one.device in fixed:
            return None
        if device is None:
            found.stays.append(one)
            continue
        holds[device] = one
        found.moves[one.key] = device
    return found


def _choice(one: Booked, names: Sequence[str], homes: Mapping[str, _Calendar]) -> str | None:
    """Its own device, else one that has no window of its own then, so that few windows change places, else the first."""
    if one.device in names:
        return one.device
    empty = (name for name in names if homes[name].is_open(one.start, one.end))
    return next(empty, names[0] if names else None)


def _evict(
    one: Booked, here: Sequence[str], holds: dict[str, Booked | None], found: Settled, draining: set[str]
) -> str | None:
    """Takes the device from the window that ends last of those that may stay where they drain, if it ends later than `one`
    or `one` must have a place."""
    candidates = [(held.end, name) for name in here if (held := holds[name]) is not None and held.device in draining]
    if not candidates:
        return None
    end, device = max(candidates)
    if one.device in draining and end <= one.end:
        return None
    victim = holds[device]
    assert victim is not None
    del found.moves[victim.key]
    found.stays.append(victim)
    return device
