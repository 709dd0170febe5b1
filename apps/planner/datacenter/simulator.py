"""Simulates a datacenter, one event after another in chronological order.

Running work is never interrupted. A request starts on the first idle device that has the program and no reservation in
the way; otherwise, the request waits in the program's queue. A reserved window includes the time to load the program.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from apps.planner.datacenter.placing import services
from apps.planner.datacenter.types import Booking, Placed, Scenario, Whole
from apps.timetable.admission import Interval, Limits, Placement, Work, free_between, place

END, BEGIN, BOOK = 0, 1, 2  # the order of simultaneous events; requests come last
NEVER = 2**62


class Window(NamedTuple):
    """A reserved window on a device."""

    start: int
    end: int
    booking: int


@dataclass
class Outcome:
    """The result of a run: the start and device of each request, and the window of each booking.

    The start is -1 if the request did not start. The window is None if the booking was not admitted.
    """

    started: Whole
    device: Whole
    windows: list[tuple[int, Window] | None]
    kept: list[bool]
    busy: list[int]
    by_type: tuple[int, ...] = ()
    loads: int = 0


@dataclass
class _Device:
    type: int
    programs: tuple[int, ...]
    until: int = 0
    is_idle: bool = True
    limit: int = NEVER  # the start of the next reservation
    windows: list[Window] = field(default_factory=list)
    loaded: set[int] = field(default_factory=set)


class Simulator:
    """A simulation run. Programs are resident on the `placed` devices."""

    def __init__(self, scenario: Scenario, placed: list[Placed]) -> None:
        self.scenario = scenario
        self.devices = [_Device(one.type, one.programs) for one in placed]
        size = len(scenario.programs)
        self.homes: list[list[int]] = [[] for _ in range(size)]
        for number, device in enumerate(self.devices):
            for program in device.programs:
                self.homes[program].append(number)
        self.idle = [list(homes) for homes in self.homes]  # heaps, already ascending
        self.listed = [set(homes) for homes in self.homes]  # the devices in each heap
        self.queues: list[deque[int]] = [deque() for _ in range(size)]
        self.at, self.program = _plain(scenario.requests.at), _plain(scenario.requests.program)
        self.takes = [_plain(row) for row in services(scenario)]
        self.loads = [[one.load(device) for one in scenario.programs] for device in scenario.devices]
        self.events: list[tuple[int, int, int]] = [(one.at, BOOK, n) for n, one in enumerate(scenario.bookings)]
        heapify(self.events)
        count = len(self.at)
        self.started, self.device = array("q", [-1]) * count, array("q", [-1]) * count
        self.windows: list[tuple[int, Window] | None] = [None] * len(scenario.bookings)
        self.kept = [False] * len(scenario.bookings)
        self.busy, self.loaded = [0] * len(self.devices), 0

    def run(self) -> Outcome:
        """Run the scenario to the end, and return the outcome."""
        events, until, handle, arrive = self.events, self.scenario.until, self._handle, self._arrive
        for request, now in enumerate(self.at):
            if now >= until:
                break
            while events and events[0][0] <= now:
                handle(heappop(events))
            arrive(request, now)
        while events and events[0][0] < until:
            handle(heappop(events))
        return Outcome(
            np.frombuffer(self.started, dtype=np.int64),
            np.frombuffer(self.device, dtype=np.int64),
            self.windows,
            self.kept,
            self.busy,
            tuple(device.type for device in self.devices),
            self.loaded,
        )

    def _handle(self, event: tuple[int, int, int]) -> None:
        now, kind, which = event
        if kind == END:
            self._end(which, now)
        elif kind == BEGIN:
            self._begin(which, now)
        else:
            self._book(which, now)

    def _arrive(self, request: int, now: int) -> None:
        program = self.program[request]
        if self.queues[program] or not self._started_idle(request, program, now):
            self.queues[program].append(request)

    def _started_idle(self, request: int, program: int, now: int) -> bool:
        heap, listed, aside = self.idle[program], self.listed[program], []
        found = False
        while heap and not found:
            number = heappop(heap)
            device = self.devices[number]
            if not device.is_idle:
                listed.discard(number)
                continue
            takes = self._takes(request, program, device)
            if now + takes <= device.limit:
                listed.discard(number)
                self._start(request, program, number, now, takes)
                found = True
            else:
                aside.append(number)
        for number in aside:
            heappush(heap, number)
        return found

    def _takes(self, request: int, program: int, device: _Device) -> int:
        takes = self.takes[device.type][request]
        return takes if program in device.loaded else takes + self.loads[device.type][program]

    def _start(self, request: int, program: int, number: int, now: int, takes: int) -> None:
        self.started[request], self.device[request] = now, number
        self._occupy(number, program, now, now + takes)

    def _occupy(self, number: int, program: int, now: int, end: int) -> None:
        device = self.devices[number]
        if program not in device.loaded:
            device.loaded.add(program)
            self.loaded += 1
        device.is_idle, device.until = False, end
        self.busy[number] += min(end, self.scenario.until) - now
        heappush(self.events, (end, END, number))

    def _end(self, number: int, now: int) -> None:
        device = self.devices[number]
        device.is_idle = True
        queues = self.queues
        best = None
        for program in device.programs:
            if queues[program]:
                head = queues[program][0]
                if (best is None or head < best[0]) and now + self._takes(head, program, device) <= device.limit:
                    best = head, program
        if best is None:
            self._list(number, device)
            return
        head, program = best
        queues[program].popleft()
        self._start(head, program, number, now, self._takes(head, program, device))
        while queues[program] and self._started_idle(queues[program][0], program, now):
            queues[program].popleft()

    def _list(self, number: int, device: _Device) -> None:
        for program in device.programs:
            if number not in self.listed[program]:
                self.listed[program].add(number)
                heappush(self.idle[program], number)

    def _begin(self, number: int, now: int) -> None:
        # A reservation counts as kept if the device is idle and the work ends within the window.
        device = self.devices[number]
        window = device.windows.pop(0)
        device.limit = device.windows[0].start if device.windows else NEVER
        if not device.is_idle:
            return
        booking = self.scenario.bookings[window.booking]
        takes = self._work(booking, device.type).length(booking.executions)
        if booking.program in device.loaded:
            takes -= self.loads[device.type][booking.program]
        self.kept[window.booking] = now + takes <= window.end
        self._occupy(number, booking.program, now, now + takes)

    def _work(self, booking: Booking, kind: int) -> Work:
        work = self.scenario.programs[booking.program].work(booking.executions, self.scenario.devices[kind])
        return Work(work.count, work.each, work.setup + self.loads[kind][booking.program])

    def _book(self, which: int, now: int) -> None:
        # Ties are broken by device type, then by device number.
        booking = self.scenario.bookings[which]
        limits = Limits(max(now, booking.not_before), min(booking.not_after, self.scenario.until))
        best: Placement | None = None
        for kind in range(len(self.scenario.devices)):
            free = {
                f"{number:09d}": self._free(self.devices[number], limits)
                for number in self.homes[booking.program]
                if self.devices[number].type == kind
            }
            found = place(self._work(booking, kind), free, limits)
            if isinstance(found, Placement) and (best is None or found.end < best.end):
                best = found
        if best is None:
            return
        piece = best.windows[0]
        number, window = int(piece.device), Window(piece.start, piece.end, which)
        self.windows[which] = number, window
        device = self.devices[number]
        insort(device.windows, window)
        device.limit = device.windows[0].start
        heappush(self.events, (window.start, BEGIN, number))

    def _free(self, device: _Device, limits: Limits) -> list[Interval]:
        busy = [Interval(one.start, one.end) for one in device.windows]
        if not device.is_idle:
            busy.append(Interval(0, device.until))
        return free_between(busy, limits.not_before, limits.not_after)


def _plain(numbers: Whole) -> array[int]:
    # An array's elements are faster to read than NumPy's.
    found = array("q")
    found.frombytes(np.ascontiguousarray(numbers, dtype=np.int64).tobytes())
    return found
