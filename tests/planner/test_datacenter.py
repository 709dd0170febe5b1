"""The simulated datacenter does what one that is simulated event by event, by searching through everything, does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.datacenter import (
    POLICIES,
    Booking,
    DeviceType,
    NoRoom,
    Placed,
    Program,
    Requests,
    Scenario,
    Simulator,
    items_of,
    report_of,
    requests_like,
    simulate,
    spare_filled,
)
from apps.timetable.admission import Interval, Limits, Placement, Work, free_between, place
from tests.tiers import some

KINDS = (
    DeviceType("a", 2, clock_hz=1_000_000, memory_bytes=100, link_bytes=1_000_000, busy_mw=10, idle_mw=1),
    DeviceType("b", 2, clock_hz=700_000, memory_bytes=60, link_bytes=300_000, busy_mw=5, idle_mw=1),
)
UNTIL = 4_000


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Scenario, list[Placed]]:
    """A few devices, programs, requests and bookings, close together so that they get in each other's way."""
    few = st.integers(0, 2)
    programs = tuple(
        Program(f"p{n}", draw(st.integers(1, 80)), draw(st.integers(80, 120)), draw(st.integers(1, 50)))
        for n in range(3)
    )
    rows = sorted(draw(st.lists(st.tuples(st.integers(0, UNTIL), few, st.integers(1, 9)), max_size=30)))
    columns = [np.array([row[place] for row in rows], dtype=np.int64) for place in range(3)]
    asked = st.tuples(st.integers(0, UNTIL), few, st.integers(1, 9), st.integers(0, 900), st.integers(100, 1500))
    bookings = tuple(
        Booking(at, program, executions, at + begin, at + begin + length)
        for at, program, executions, begin, length in draw(st.lists(asked, max_size=12))
    )
    held = st.sets(few, min_size=1)
    placed = [Placed(draw(st.integers(0, 1)), tuple(sorted(draw(held)))) for _ in range(draw(st.integers(1, 4)))]
    return Scenario(KINDS, programs, Requests(*columns), bookings, UNTIL), placed


class Slow:
    """The same rules by plain search: no heaps, no kept state but what each device does and has promised."""

    def __init__(self, scenario: Scenario, placed: list[Placed]) -> None:
        self.scenario, self.placed = scenario, placed
        count = range(len(placed))
        self.until, self.loaded = [0 for _ in count], [set[int]() for _ in count]
        self.promised: list[list[tuple[int, int, int]]] = [[] for _ in count]
        self.waiting: list[int] = []
        self.started: dict[int, tuple[int, int]] = {}
        self.windows: dict[int, tuple[int, int, int]] = {}
        self.kept: dict[int, bool] = {}
        self.ending: set[int] = set()  # devices whose end is still to be dealt with

    def work(self, program: int, executions: int, device: int, *, always: bool = False) -> Work:
        kind = KINDS[self.placed[device].type]
        work = self.scenario.programs[program].work(executions, kind)
        is_new = always or program not in self.loaded[device]
        return replace(work, setup=work.setup + (self.scenario.programs[program].load(kind) if is_new else 0))

    def length(self, request: int, device: int) -> int:
        asked = self.scenario.requests
        return self.work(int(asked.program[request]), int(asked.executions[request]), device).length(
            int(asked.executions[request])
        )

    def fits(self, request: int, device: int, now: int) -> bool:
        program = int(self.scenario.requests.program[request])
        later = [start for start, _, _ in self.promised[device]]
        idle = self.until[device] <= now and device not in self.ending
        end = now + self.length(request, device)
        return program in self.placed[device].programs and idle and all(end <= start for start in later)

    def occupy(self, device: int, program: int, now: int, length: int) -> None:
        self.loaded[device].add(program)
        self.until[device] = now + length
        self.ending.add(device)

    def start(self, request: int, device: int, now: int) -> None:
        self.started[request] = (now, device)
        self.occupy(device, int(self.scenario.requests.program[request]), now, self.length(request, device))
        if request in self.waiting:
            self.waiting.remove(request)

    def heads(self) -> list[int]:
        first: dict[int, int] = {}
        for request in sorted(self.waiting):
            first.setdefault(int(self.scenario.requests.program[request]), request)
        return sorted(first.values())

    def begin_waiting(self, program: int, now: int) -> None:
        """The heads of one program's queue, as long as an idle device takes them."""
        while True:
            mine = [head for head in self.heads() if self.scenario.requests.program[head] == program]
            there = [d for d in range(len(self.placed)) if mine and self.fits(mine[0], d, now)]
            if not there:
                return
            self.start(mine[0], there[0], now)

    def at(self, now: int) -> None:
        for device in range(len(self.placed)):
            if device in self.ending and self.until[device] == now:
                self.ending.remove(device)
                for head in self.heads():
                    if self.fits(head, device, now):
                        self.start(head, device, now)
                        self.begin_waiting(int(self.scenario.requests.program[head]), now)
                        break
        self.begin(now)
        for number, booking in enumerate(self.scenario.bookings):
            if booking.at == now:
                self.book(number, now)
        asked = self.scenario.requests
        for request in np.flatnonzero(asked.at == now).tolist():
            program = int(asked.program[request])
            self.waiting.append(request)
            if sum(int(asked.program[other]) == program for other in self.waiting) == 1:
                self.begin_waiting(program, now)

    def begin(self, now: int) -> None:
        for device, promised in enumerate(self.promised):
            for start, end, number in sorted(promised):
                if start == now:
                    promised.remove((start, end, number))
                    booking = self.scenario.bookings[number]
                    length = self.work(booking.program, booking.executions, device).length(booking.executions)
                    self.kept[number] = device not in self.ending and now + length <= end
                    self.occupy(device, booking.program, now, length)

    def book(self, number: int, now: int) -> None:
        booking = self.scenario.bookings[number]
        limits = Limits(max(now, booking.not_before), min(booking.not_after, UNTIL))
        options = []
        for device, placed in enumerate(self.placed):
            busy = [Interval(start, end) for start, end, _ in self.promised[device]]
            busy += [Interval(0, self.until[device])] if device in self.ending else []
            free = {"": free_between(busy, limits.not_before, limits.not_after)}
            work = self.work(booking.program, booking.executions, device, always=True)
            found = place(work, free, limits) if booking.program in placed.programs else None
            if isinstance(found, Placement):
                options.append((found.end, placed.type, found.windows[0].start, device))
        if options:
            end, _, start, device = min(options)
            self.promised[device].append((start, end, number))
            self.windows[number] = (device, start, end)
            if start == now:
                self.begin(now)


@settings(max_examples=some(60), deadline=None)
@given(scenarios())
def test_the_simulator_is_the_search_through_everything(made: tuple[Scenario, list[Placed]]) -> None:
    scenario, placed = made
    slow = Slow(scenario, placed)
    asked = {*scenario.requests.at.tolist(), *(booking.at for booking in scenario.bookings)}
    for now in range(UNTIL):
        if slow.ending or slow.waiting or any(slow.promised) or now in asked:
            slow.at(now)
    outcome = Simulator(scenario, placed).run()
    told = {
        n: (int(at), int(on)) for n, (at, on) in enumerate(zip(outcome.started, outcome.device, strict=True)) if at >= 0
    }
    assert told == slow.started
    windows = {n: (one[0], one[1].start, one[1].end) for n, one in enumerate(outcome.windows) if one is not None}
    assert windows == slow.windows
    assert all(outcome.kept[number] for number in windows if number in slow.kept)
    assert all(slow.kept.values())
    assert report_of(scenario, outcome).missed == 0
    assert simulate(scenario, placed) == report_of(scenario, outcome)


def test_a_request_waits_behind_the_one_before_it_and_never_delays_a_reservation() -> None:
    program = Program("p", interval=100, latency=100, memory_bytes=1)
    asked = Requests(np.array([0, 10, 20]), np.array([0, 0, 0]), np.array([4, 3, 1]))
    booking = Booking(5, 0, 2, 450, 700)
    outcome = Simulator(Scenario(KINDS, (program,), asked, (booking,), UNTIL), [Placed(0, (0,))]).run()
    # 1 to load; the second would end at 701 and so waits until the reservation is over, the third behind it
    assert outcome.windows[0] is not None
    assert (outcome.windows[0][1].start, outcome.windows[0][1].end) == (450, 651)
    assert outcome.started.tolist() == [0, 650, 950]
    assert outcome.busy == [1 + 400 + 200 + 300 + 100]


@pytest.mark.parametrize(("reserved", "third", "fourth"), [(351, 251, 251), (350, 251, 450)])
def test_the_next_in_the_queue_takes_an_idle_device_if_it_ends_before_the_reservation(
    reserved: int, third: int, fourth: int
) -> None:
    program = Program("p", interval=100, latency=100, memory_bytes=1)
    asked = Requests(np.array([0, 50, 60, 70]), np.array([0, 0, 0, 0]), np.array([2, 2, 5, 1]))
    booking = Booking(0, 0, 1, reserved, 700)
    scenario = Scenario(KINDS, (program,), asked, (booking,), UNTIL)
    outcome = Simulator(scenario, [Placed(0, (0,)), Placed(0, (0,))]).run()
    assert outcome.started.tolist() == [0, 50, third, fourth]


@pytest.mark.parametrize("policy", list(POLICIES))
def test_no_policy_fills_a_device_with_more_than_it_holds(policy: str) -> None:
    dice = np.random.default_rng(5)
    kinds = tuple(replace(one, count=80, memory_bytes=one.memory_bytes * 3) for one in KINDS)
    programs = tuple(Program(f"p{n}", 900, 1000, int(dice.integers(1, 90))) for n in range(30))
    at = np.sort(dice.integers(0, 1000, 100))
    popularity = 1 / np.arange(1.0, 31)
    asked = requests_like(at, dice.integers(1, 9, 100), count=2_000, until=1_000_000, popularity=popularity, dice=dice)
    scenario = Scenario(kinds, programs, asked, until=1_000_000)
    items = items_of(scenario)
    placed = POLICIES[policy](items, kinds)
    assert {program for one in placed for program in one.programs} == set(range(30))
    full = spare_filled(placed, scenario)
    assert len(full) == 160
    for one in full:
        assert sum(programs[program].memory_bytes for program in one.programs) <= kinds[one.type].memory_bytes
    if policy == "one model each":
        assert all(len(one.programs) == 1 for one in placed)
    with pytest.raises(NoRoom, match="Add devices"):
        POLICIES[policy](items, tuple(replace(one, count=1) for one in kinds))


def test_requests_have_the_shape_of_the_trace_and_come_from_the_seed() -> None:
    at, executions = np.array([0, 1_000_000, 599_000_000]), np.array([1, 2, 3])
    made = [
        requests_like(
            at,
            executions,
            count=500,
            until=1_800_000_000,
            popularity=np.array([1.0, 0.0]),
            dice=np.random.default_rng(7),
        )
        for _ in range(2)
    ]
    assert made[0].at.tobytes() == made[1].at.tobytes()
    assert (np.diff(made[0].at) >= 0).all()
    assert set(made[0].program.tolist()) == {0}
    near = np.minimum(made[0].at % 599_000_001, 599_000_001 - made[0].at % 599_000_001)
    assert (near <= 1_600_000).mean() > 0.95
