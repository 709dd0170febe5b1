"""Moves a pool's windows to other devices when devices leave. Every window keeps its start and end. Pure functions.

Windows that have begun never move. The other windows fit on k devices if and only if at most k windows overlap at any
instant. A sweep takes the windows in the order of their starts and gives every window the next free device. If the
windows do not fit, the sweep leaves as few windows as possible on draining devices: at each overflow, the window that
ends last.

A placement that moves only the windows of leaving devices is tried first, because customers see the device of each
window.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NOWHERE = ""


class Booking(NamedTuple):
    """A window with its time [start, end) in microseconds."""

    key: str
    device: str
    start: int
    end: int
    is_free: bool = True


@dataclass
class Placement:
    """The result of matching. `moves` maps the key of each moved window to its new device. `stays` holds the windows
    without a new device.
    """

    moves: dict[str, str] = field(default_factory=dict)
    stays: list[Booking] = field(default_factory=list)


def place(
    booked: Iterable[Booking],
    active: Sequence[str],
    *,
    draining: Collection[str] = (),
    wanted: Mapping[str, str] | None = None,
) -> Placement:
    """Place every window on an active device without changing the window's times, or leave the window on a `draining`
    device.

    A window that stays on any other device counts as unplaced. `wanted` maps windows to the devices to which they
    return if possible. Ties are broken by the order of `active`.
    """
    rows = sorted(booked, key=lambda one: (one.start, one.end, one.key))
    homes = {one.key: one.device for one in rows}
    if wanted:
        rows = _with_returns(rows, wanted, {*active, *draining})
    placement = _direct(rows, active, set(draining))
    if _unplaced(placement, draining)[1]:
        swept = _sweep(rows, active, set(draining))
        if swept is not None and _unplaced(swept, draining) < _unplaced(placement, draining):
            placement = swept
    ends = {one.key: placement.moves.get(one.key, one.device) for one in rows}
    placement.moves = {key: device for key, device in ends.items() if device not in {homes[key], NOWHERE}}
    return placement


def _with_returns(rows: Sequence[Booking], wanted: Mapping[str, str], devices: set[str]) -> list[Booking]:
    returning = {one.key: one for one in rows if one.is_free and wanted.get(one.key) in devices}
    staying = [one for one in rows if one.key not in returning]
    calendars = _calendars(staying, [*devices, *(one.device for one in rows)])
    found = _goals_reached(returning, wanted, calendars)
    homes = {key: one.device for key, one in returning.items()}
    rest = {key: one for key, one in returning.items() if key not in found}
    found |= _goals_reached(rest, homes, calendars)
    return [one._replace(device=found.get(one.key, NOWHERE)) if one.key in returning else one for one in rows]


def _goals_reached(
    windows: Mapping[str, Booking], goals: Mapping[str, str], calendars: Mapping[str, _Calendar]
) -> dict[str, str]:
    return {key: goals[key] for key, one in windows.items() if calendars[goals[key]].add_if_open(one)}


def _unplaced(placement: Placement, draining: Collection[str]) -> tuple[int, int]:
    free = [one for one in placement.stays if one.is_free]
    return sum(one.device not in draining for one in free), len(free)


class _Calendar:
    # The times of a device's windows, sorted. They never overlap.
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

    def add_if_open(self, one: Booking) -> bool:
        is_open = self.is_open(one.start, one.end)
        if is_open:
            self.add(one.start, one.end)
        return is_open


def _calendars(rows: Iterable[Booking], active: Sequence[str]) -> dict[str, _Calendar]:
    calendars = {device: _Calendar() for device in active}
    for one in rows:
        if one.device in calendars:
            calendars[one.device].add(one.start, one.end)
    return calendars


def _direct(rows: Sequence[Booking], active: Sequence[str], draining: set[str]) -> Placement:
    # Windows that must move come first, then windows of draining devices; in each group, the longest comes first.
    calendars = _calendars(rows, active)
    found = Placement()
    leaving = [one for one in rows if one.device not in calendars]
    for one in sorted(leaving, key=lambda one: (one.device in draining, one.start - one.end, one.start, one.key)):
        device = next((name for name in active if calendars[name].is_open(one.start, one.end)), None)
        if device is None or not one.is_free:
            found.stays.append(one)
            continue
        calendars[device].add(one.start, one.end)
        found.moves[one.key] = device
    return found


class _Sweep:
    # The state of a sweep over the windows in the order of their starts.
    def __init__(self, rows: Sequence[Booking], active: Sequence[str], draining: set[str]) -> None:
        self.active, self.draining = active, draining
        self.fixed = _calendars((one for one in rows if not one.is_free), active)
        self.homes = _calendars((one for one in rows if one.is_free), active)
        self.last: dict[str, Booking | None] = dict.fromkeys(active)
        self.found = Placement(stays=[one for one in rows if not one.is_free and one.device not in self.fixed])

    def device_for(self, one: Booking) -> str | None:
        usable = [name for name in self.active if self.fixed[name].is_open(one.start, one.end)]
        free = [name for name in usable if (last := self.last[name]) is None or last.end <= one.start]
        return _choice(one, free, self.homes) or self._evict(one, usable)

    def put(self, one: Booking, device: str) -> None:
        self.last[device] = one
        self.found.moves[one.key] = device

    def _evict(self, one: Booking, usable: Sequence[str]) -> str | None:
        # The cancelled move must be that of a window on a draining device. Of these windows, the last to end stays.
        candidates = [
            (last.end, name)
            for name in usable
            if (last := self.last[name]) is not None and last.device in self.draining
        ]
        if not candidates:
            return None
        end, device = max(candidates)
        if one.device in self.draining and end <= one.end:
            return None
        victim = self.last[device]
        assert victim is not None
        del self.found.moves[victim.key]
        self.found.stays.append(victim)
        return device


def _sweep(rows: Sequence[Booking], active: Sequence[str], draining: set[str]) -> Placement | None:
    """Place all windows. Returns None if a window of an active device finds no device."""
    sweep = _Sweep(rows, active, draining)
    for one in (row for row in rows if row.is_free):
        device = sweep.device_for(one)
        if device is not None:
            sweep.put(one, device)
        elif one.device in sweep.fixed:
            return None
        else:
            sweep.found.stays.append(one)
    return sweep.found


def _choice(one: Booking, names: Sequence[str], homes: Mapping[str, _Calendar]) -> str | None:
    if one.device in names:
        return one.device
    empty = (name for name in names if homes[name].is_open(one.start, one.end))
    return next(empty, names[0] if names else None)
