"""Leases lie inside their windows to the cycle, cover every item once, and never issue before the last one allows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apps.dispatch.devicetime import (
    Pace,
    Room,
    cursor_after,
    cursor_at,
    cut_leases,
    cycles_between,
    instant_at,
    seconds_at,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
paces = st.builds(
    lambda interval, more, clock, load: Pace(interval + more, interval, clock, load),
    st.integers(1, 50),
    st.integers(0, 100),
    st.sampled_from([900_000_000, 1_000_000_000, 7]),
    st.integers(0, 300),
)
rooms = st.lists(st.tuples(st.integers(0, 600), st.integers(0, 200)), max_size=4).map(
    lambda sizes: [Room(f"w{index}", f"d{index % 2}", START, *size) for index, size in enumerate(sizes)]
)


@given(st.integers(1, 60), paces, rooms, st.integers(1, 20))
def test_every_item_is_leased_once_and_inside_its_window(count: int, pace: Pace, free: list[Room], block: int) -> None:
    cuts, left = cut_leases(count, pace, free, block=block)
    assert [item for cut in cuts for item in range(cut.first_item, cut.first_item + cut.count)] == list(
        range(count - left)
    )
    by_window = {room.window: room for room in free}
    for cut in cuts:
        room = by_window[cut.window]
        assert 1 <= cut.count <= block
        assert cut.first_cycle >= room.cursor
        assert cut.first_cycle + pace.span(cut.count) <= room.cycles
    for one, two in pairwise(cuts):
        if one.window == two.window:
            assert two.first_cycle == one.first_cycle + one.count * pace.interval
    if left:
        assert sum(room.holds(pace) for room in free) == count - left


@given(paces, st.integers(1, 1000))
def test_a_window_of_the_stated_duration_holds_exactly_that_many(pace: Pace, count: int) -> None:
    micros = -int(-pace.duration(count) * 1_000_000 // 1)
    cycles = cycles_between(START, START + timedelta(microseconds=micros), pace.clock_hz)
    assert Room("w", "d", START, cycles, pace.load).holds(pace) >= count
    cycles_needed = pace.load + pace.span(count)
    assert Room("w", "d", START, cycles_needed - 1, pace.load).holds(pace) == count - 1


@given(st.integers(0, 10**12), st.sampled_from([900_000_000, 1_000_000_000, 7]))
def test_an_instant_is_the_exact_one_rounded_down_to_a_microsecond(cycles: int, clock_hz: int) -> None:
    shown = instant_at(START, cycles, clock_hz)
    exact = seconds_at(START, cycles, clock_hz) - seconds_at(START, 0, clock_hz)
    assert exact == Fraction(cycles, clock_hz)
    short = exact - Fraction((shown - START) // timedelta(microseconds=1), 1_000_000)
    assert 0 <= short < Fraction(1, 1_000_000)


@given(st.integers(-5_000, 5_000), st.sampled_from([900_000_000, 7]))
def test_the_cursor_never_lies_before_now(micros: int, clock_hz: int) -> None:
    now = START + timedelta(microseconds=micros)
    cursor = cursor_at(START, now, clock_hz)
    assert cursor >= 0
    assert seconds_at(START, cursor, clock_hz) >= seconds_at(now, 0, clock_hz) or (cursor == 0 and micros <= 0)
    if cursor:
        assert seconds_at(START, cursor - 1, clock_hz) < seconds_at(now, 0, clock_hz)


def test_the_same_program_goes_on_in_the_pipeline_and_another_waits_for_it_to_drain() -> None:
    pace = Pace(latency=100, interval=10, clock_hz=900_000_000)
    assert cursor_after([(0, 5, pace, True)]) == 50
    assert cursor_after([(0, 5, pace, False)]) == 140
    assert cursor_after([(0, 5, pace, True), (50, 2, pace, True)]) == 70
    assert cursor_after([]) == 0
