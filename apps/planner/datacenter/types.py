"""What a simulated datacenter consists of. Times are whole microseconds, energy is counted in milliwatts times them."""

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
    """A kind of device: how many there are, cycles a second, bytes of memory, bytes a second of its link, milliwatts."""

    name: str
    count: int
    clock_hz: int
    memory_bytes: int
    link_bytes: int
    busy_mw: int
    idle_mw: int


@dataclass(frozen=True)
class Program:
    """A compiled program: cycles from one execution to the next, cycles of one alone, the bytes that it occupies, and those
    that cross the link before its first cycle on a device (`resources.load`; None: all that it occupies)."""

    name: str
    interval: int
    latency: int
    memory_bytes: int
    load_bytes: int | None = None

    def work(self, count: int, device: DeviceType) -> Work:
        """`count` executions that follow each other, as the timetable places them: microseconds on that device."""
        each = Fraction(self.interval * SECOND, device.clock_hz)
        drain = Fraction((self.latency - self.interval) * SECOND, device.clock_hz)
        return Work(count, each, drain)

    def load(self, device: DeviceType) -> int:
        """Microseconds until its bytes are on the device, rounded up."""
        crossing = self.memory_bytes if self.load_bytes is None else self.load_bytes
        return -(-crossing * SECOND // device.link_bytes)


@dataclass(frozen=True, eq=False)
class Requests:
    """On-demand requests in ascending order of time: microsecond of arrival, program (index), executions."""

    at: Whole
    program: Whole
    executions: Whole

    def __post_init__(self) -> None:
        if not len(self.at) == len(self.program) == len(self.executions):
            raise ValueError("times, programs and executions are of different lengths")
        if len(self.at) and (
            bool((np.diff(self.at) < 0).any()) or int(self.executions.min()) < 1 or int(self.at[0]) < 0
        ):
            raise ValueError("requests come in order of time from 0 on, each of at least one execution")


@dataclass(frozen=True)
class Booking:
    """Somebody asks at `at` for `executions` of a program on one device, in one window within [not_before, not_after)."""

    at: int
    program: int
    executions: int
    not_before: int
    not_after: int


@dataclass(frozen=True)
class Scenario:
    """A datacenter over [0, until): device types, programs, and what is asked of it. All from one seed or one trace."""

    devices: tuple[DeviceType, ...]
    programs: tuple[Program, ...]
    requests: Requests
    bookings: tuple[Booking, ...] = ()
    until: int = DAY


@dataclass(frozen=True)
class Item:
    """One resident copy of a program: on each device type its share of the time (millionths), and its memory in bytes."""

    program: int
    duty: tuple[int, ...]
    memory_bytes: int


@dataclass(frozen=True)
class Placed:
    """A device with what is resident on it: its type (index) and the programs (indices, ascending)."""

    type: int
    programs: tuple[int, ...]


class Placer(Protocol):
    """Which copies share a device. Uses at most `count` devices of each type; raises NoRoom when they do not suffice."""

    def __call__(self, items: tuple[Item, ...], devices: tuple[DeviceType, ...]) -> list[Placed]: ...


class NoRoom(ValueError):
    """The devices do not hold the copies; the sentence says how many were placed."""
