"""Reservation tables against a plain row of cycles, and what a program gains from a period of its own."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.near_bound import loads
from compiler import targets
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling import initiation_interval
from compiler.scheduling.build import build
from compiler.scheduling.reservation import ONCE, ReservationTable
from tests.compiler.checks import check_program
from tests.tiers import some

F32 = DType.F32


@settings(max_examples=some(200), deadline=None)
@given(
    ii=st.integers(1, 40),
    asked=st.lists(st.tuples(st.integers(0, 120), st.integers(1, 12), st.booleans()), max_size=50),
    slack=st.integers(0, 20),
)
def test_a_track_finds_what_a_row_of_cycles_finds(ii, asked, slack):
    track, taken, spans = ReservationTable(ii), np.zeros(ii, bool), []

    def free(at, beats):
        return beats <= ii and not taken[np.arange(at, at + beats) % ii].any()

    for at, beats, back in asked:
        expected = next((c for c in range(at, at + ii) if free(c, beats)), None)
        assert track.find(at, beats) == expected
        assert track.free(at, beats) == free(at, beats)
        places = [c for c in range(at, at + slack + 1) if free(c, beats)]
        pieces = [(int(not taken[(c - 1) % ii]) + int(not taken[(c + beats) % ii]), c) for c in places]
        assert track.best_fit(at, beats, slack) == (min(pieces)[1] if pieces else expected)
        if beats <= ii:
            assert track.last(at, beats, 0) == next((c for c in range(at, -1, -1) if free(c, beats)), None)
        if expected is not None:
            track.take(expected, beats)
            taken[np.arange(expected, expected + beats) % ii] = True
            spans.append((expected, beats))
        elif back and spans:
            at, beats = spans.pop(len(spans) // 2)
            track.give(at, beats)
            taken[np.arange(at, at + beats) % ii] = False
        assert sum(track.ends) - sum(track.starts) == taken.sum()
    assert all(a < b for a, b in zip(track.starts, track.ends, strict=True))


def test_what_is_not_repeated_has_room_for_everything():
    track = ReservationTable(ONCE)
    track.take(5, 10)
    assert (track.find(0, 6), track.find(0, 5), track.last(20, 1, 0), track.gap(5)) == (15, 0, 20, 5 - 15 + ONCE)


def masked(layers):
    """A chain of long steps that all read one small input."""
    b = Builder("masked")
    value, mask = b.input("x", TensorType(F32, (8, 320))), b.input("mask", TensorType(F32, (1, 320)))
    everywhere = Access((0, 0), ((0, 0), (0, 1)))
    for _ in range(layers):
        operands = [Operand(value, Access.identity(2)), Operand(mask, everywhere)]
        value = b.compute((8, 320), operands, arg(0, F32).op("tanh") + arg(1, F32))
        value = b.reshape(
            b.compute((8, 320), [Operand(value, Access.identity(2))], arg(0, F32), parallel=1, reducer="sum"), (8, 1)
        )
        spread = Access((0, 0), ((1, 0), (0, 0)))
        value = b.compute((8, 320), [Operand(value, spread)], arg(0, F32) * 0.5)
    return b.finish({"y": value}, {}, {})


def test_a_value_that_lives_long_does_not_hold_the_interval_up():
    graph = masked(12)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.random((8, 320), np.float32), "mask": rng.random((1, 320), np.float32)} for _ in range(5)]
    plan, _ = check_program(graph, "lpu", feeds)
    critical_path = max(b.end - b.start for b in plan.live_ranges)
    assert plan.interval < plan.latency // 2
    assert (plan.map.copies - 1) * plan.interval < critical_path <= plan.map.copies * plan.interval
    alone = build(graph, replace(targets.load("lpu"), copies=1), quiet)
    assert plan.map.copies > 1 == alone.map.copies
    assert alone.interval >= max(b.end - b.start for b in alone.live_ranges) > plan.interval


def test_the_objective_says_what_an_interval_may_cost():
    graph, target = masked(6), targets.load("lpu")
    once = build(graph, replace(target, copies=1), quiet, objective="latency")
    found = {
        objective: build(graph, target, quiet, objective=objective) for objective in initiation_interval.OBJECTIVES
    }
    least = max(loads(found["interval"]).values())
    assert (
        least <= found["interval"].interval <= found["balanced"].interval <= found["latency"].interval < once.interval
    )
    assert found["latency"].latency <= once.latency
    assert found["balanced"].latency * least <= once.latency * found["balanced"].interval
    assert 20 * found["interval"].interval <= 21 * least
