"""Queries for the timetable."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from apps.fleet.models import Device, Pool
from apps.fleet.selectors import devices_of, pools
from apps.timetable.admission import Interval, Limits, Placement, Rated, Refusal, Work, place
from apps.timetable.instants import instant_of, micros_of, micros_of_seconds
from apps.timetable.models import Window, WindowState
from apps.timetable.reading import gaps_of_devices

ALTERNATIVE_HORIZON = timedelta(days=7)
WINDOWS_MAX = 64

# (start, end) or (start, end, rank): rank 0 is the cheapest tariff and is tried first.
Allowed = Sequence[tuple[datetime, datetime] | tuple[datetime, datetime, int]]


class Slot(NamedTuple):
    """A half-open period of one device."""

    device: Device
    start: datetime
    end: datetime


class Alternative(NamedTuple):
    """Another place for the same work: pool, start and end."""

    pool: str
    start: datetime
    end: datetime


class Demand(NamedTuple):
    """The work requested of a pool, in seconds.

    `quantum`: the time that is never split when the work is divided between windows; None if the work must not be
    divided.
    """

    duration: Fraction
    not_before: datetime
    not_after: datetime
    allowed: Allowed | None = None
    setup: Fraction = Fraction(0)
    quantum: Fraction | None = None
    windows_max: int = 1

    def work(self) -> Work:
        """Return the demand as work for admission control."""
        if self.windows_max == 1 or self.quantum is None:
            return Work(count=1, each=micros_of_seconds(self.duration))
        count = -int(-(self.duration - self.setup) // self.quantum)
        return Work(max(count, 1), micros_of_seconds(self.quantum), micros_of_seconds(self.setup))

    def limits(self, *, now: datetime) -> Limits:
        """Return the limits in microseconds. Nothing is placed before `now`."""
        allowed = None
        if self.allowed is not None:
            allowed = tuple(
                Rated(micros_of(one[0]), micros_of(one[1]), one[2] if len(one) > 2 else 0) for one in self.allowed
            )
        not_before = micros_of(max(now, self.not_before))
        return Limits(not_before, micros_of(self.not_after), allowed, min(self.windows_max, WINDOWS_MAX))


def windows_tried(quantum: Fraction | None) -> tuple[int, ...]:
    """Return the maximum numbers of windows to try, in order."""
    return (1,) if quantum is None else (1, WINDOWS_MAX)


class Room:
    """The free time of a pool in [start, end). Nothing is reserved.

    Time of the contract `without` counts as free.
    """

    def __init__(
        self, pool: Pool, start: datetime, end: datetime, *, now: datetime, without: UUID | None = None
    ) -> None:
        self.now = now
        begin = max(start, now)
        self.free = free_by_device(devices_of(pool), begin, end, now=now, without=without) if begin < end else {}

    def place(self, demand: Demand) -> Placement | Refusal:
        """Return the placement of the demand, or the refusal.

        The limits of the demand must lie within [start, end).
        """
        for most in windows_tried(demand.quantum):
            one = demand._replace(windows_max=most)
            found = place(one.work(), self.free, one.limits(now=self.now))
            if isinstance(found, Placement):
                return found
        return found


def free_by_device(
    devices: Sequence[Device], start: datetime, end: datetime, *, now: datetime, without: UUID | None = None
) -> dict[str, list[Interval]]:
    """Return the free time of each device in [start, end), by device id as text.

    Time of the contract `without` counts as free.
    """
    gaps = gaps_of_devices([device.pk for device in devices], start, end, now=now, without=without)
    return {str(device.pk): gaps.get(str(device.pk), []) for device in devices}


def slots_free(devices: Sequence[Device], start: datetime, end: datetime, *, now: datetime) -> list[Slot]:
    """Return the free periods of these devices in [start, end), ordered by start."""
    by_id = {str(device.pk): device for device in devices}
    slots = [
        Slot(by_id[key], instant_of(one.start), instant_of(one.end))
        for key, free in free_by_device(devices, start, end, now=now).items()
        for one in free
    ]
    return sorted(slots, key=lambda slot: (slot.start, slot.device.name))


def demand_place(devices: Sequence[Device], demand: Demand, *, now: datetime) -> Placement | Refusal:
    """Return the placement of the demand on these devices, or the refusal. Nothing is reserved."""
    limits = demand.limits(now=now)
    start, end = instant_of(limits.not_before), demand.not_after
    free = free_by_device(devices, start, end, now=now) if start < end else {}
    return place(demand.work(), free, limits)


def reservation_preview(
    *,
    pool: Pool,
    duration: Fraction,
    not_before: datetime,
    not_after: datetime,
    allowed: Allowed | None = None,
    now: datetime,
    setup: Fraction = Fraction(0),
    quantum: Fraction | None = None,
    windows_max: int = 1,
) -> list[Slot] | None:
    """Return the windows that `reservation_take` would reserve now; None if the demand does not fit."""
    devices = devices_of(pool)
    demand = Demand(duration, not_before, not_after, allowed, setup, quantum, windows_max)
    found = demand_place(devices, demand, now=now)
    if isinstance(found, Refusal):
        return None
    by_id = {str(device.pk): device for device in devices}
    return [Slot(by_id[piece.device], instant_of(piece.start), instant_of(piece.end)) for piece in found.windows]


def alternatives_find(*, pool: Pool, demand: Demand, now: datetime) -> list[Alternative]:
    """Return other places for the demand: on similar pools, and on the same pool up to a week later."""
    found: list[Alternative] = []
    siblings = [one for one in pools().filter(processor=pool.processor, kind=pool.kind) if one.pk != pool.pk]
    later = demand._replace(not_after=max(now, demand.not_after) + ALTERNATIVE_HORIZON, allowed=None)
    for candidate, tried in [*((one, demand) for one in siblings), (pool, later)]:
        placement = demand_place(devices_of(candidate), tried, now=now)
        if isinstance(placement, Placement):
            start = instant_of(min(piece.start for piece in placement.windows))
            found.append(Alternative(candidate.slug, start, instant_of(placement.end)))
    return found


def windows_of(contract_id: UUID) -> list[Window]:
    """Return the contract's windows that were not released, ordered by start."""
    rows = Window.objects.filter(reservation__contract_id=contract_id, state=WindowState.ACTIVE)
    return list(rows.select_related("device", "device__pool").order_by("period", "device_id"))


def periods_reserved(reservation_id: UUID) -> list[tuple[datetime, datetime]]:
    """Return every period that the reservation ever held, including released periods, ordered by start."""
    rows = Window.objects.filter(reservation=reservation_id).order_by("period", "device_id")
    return [(period.lower, period.upper) for period in rows.values_list("period", flat=True)]
