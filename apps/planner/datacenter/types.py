"""The inputs of a datacenter simulation. Times are whole microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from apps.timetable.admission import Work

SECOND = 1_000_000
DAY = 86_400 * SECOND
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DeviceType:
    """A type of device. Bandwidth is in bytes per second, and power in milliwatts."""

    name: str
    count: int
    clock_hz: int
    memory_bytes: int
    link_bytes: int
    busy_mw: int
    idle_mw: int


@dataclass(frozen=True)
class Program:
    """A compiled program. The initiation interval and the latency are in cycles.

    `load_bytes` is the number of bytes sent over the link before the program's first cycle. None means all of the
    program's memory.
    """

    name: str
    interval: int
    latency: int
    memory_bytes: int
    load_bytes: int | None = None

    def work(self, count: int, device: DeviceType) -> Work:
        """Return `count` consecutive executions on the device as work for the timetable, in microseconds."""
        each = Fraction(self.interval * SECOND, device.clock_hz)
        drain = Fraction((self.latency - self.interval) * SECOND, device.clock_hz)
        return Work(count, each, drain)

    def load(self, device: DeviceType) -> int:
        """Return the time to load the program onto the device, in microseconds, rounded up."""
        crossing = self.memory_bytes if self.load_bytes is None else self.load_bytes
        return -(-crossing * SECOND // device.link_bytes)


@dataclass(frozen=True, eq=False)
class Requests:
    """On-demand requests in order of arrival: arrival time in microseconds, index of the program, number of executions."""

    at: Whole
    program: Whole
    executions: Whole

    def __post_init__(self) -> None:
        if not len(self.at) == len(self.program) == len(self.executions):
            raise ValueError("times, programs and executions are of different lengths")
        if len(self.at) and (
            bool((np.diff(self.at) < 0).any()) or int(self.executions.min()) < 1 or int(self.at[0]) < 0
        ):
            raise ValueError("requests must be in order of time from 0, each with at least one execution")


@dataclass(frozen=True)
class Booking:
    """A request for a reservation on one device, made at the time `at`.

    The window must lie within [not_before, not_after).
    """

    at: int
    program: int
    executions: int
    not_before: int
    not_after: int


@dataclass(frozen=True)
class Scenario:
    """The input of a simulation over [0, until)."""

    devices: tuple[DeviceType, ...]
    programs: tuple[Program, ...]
    requests: Requests
    bookings: tuple[Booking, ...] = ()
    until: int = DAY


@dataclass(frozen=True)
class Item:
    """A resident copy of a program: the share of each device type's time, in millionths, and the memory in bytes."""

    program: int
    duty: tuple[int, ...]
    memory_bytes: int


@dataclass(frozen=True)
class Placed:
    """A device with resident programs: the index of the device type, and the programs' indices in ascending order."""

    type: int
    programs: tuple[int, ...]


class Placer(Protocol):
    """A policy that assigns copies of programs to devices. Raises NoRoom if the devices do not suffice."""

    def __call__(self, items: tuple[Item, ...], devices: tuple[DeviceType, ...]) -> list[Placed]: ...


class NoRoom(ValueError):
    """Raised if the devices have no room for all copies."""
