"""The interval that a program states, which is billed, is held against its instructions, also when it runs once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import compiler
from compiler import targets
from compiler.errors import ModelError
from compiler.ir.graph import Graph
from compiler.isa.assembly import disassemble
from compiler.isa.binary import Binary
from compiler.simulator import Session, simulate
from compiler.simulator.pace import demand_of_prepared, demand_of_whole, shortest
from compiler.simulator.placing import Unclear
from compiler.simulator.prepare import Preparation
from compiler.simulator.reservations import Reservations, Uses
from compiler.simulator.run import target_of
from compiler.simulator.whole import Whole
from tests.compiler.assembler import assemble
from tests.compiler.graphs import feeds_for, graphs
from tests.compiler.oracle import compiled
from tests.compiler.oracle.pace import Pace
from tests.compiler.oracle.programs import Sample
from tests.tiers import some

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def is_legal(found: Reservations, interval: int) -> bool:
    """Whether inferences may begin every ``interval`` cycles."""
    return interval >= max(1, found.least) and found.conflict(interval) is None


@pytest.fixture(params=[sample.name for sample in compiled.samples()])
def sample(request: pytest.FixtureRequest) -> Sample:
    return next(s for s in compiled.samples() if s.name == request.param)


def test_any_other_interval_is_refused_with_one_feed(sample: Sample) -> None:
    true = sample.binary.interval
    assert simulate(sample.binary.to_bytes(), sample.feeds[0])[1].interval == true
    for wrong in {0, true // 2, true - 1, true + 1, 2 * true, sample.binary.latency} - {true}:
        data = replace(sample.binary, interval=wrong).to_bytes()
        with pytest.raises(
            ModelError, match=f"states an inference every {wrong} cycles, but .*; compile the model again"
        ):
            simulate(data, sample.feeds[0])
        with pytest.raises(ModelError, match=f"states an inference every {wrong} cycles"):
            Session(data).run(sample.feeds[0])


def test_a_brute_force_count_finds_the_same_interval(sample: Sample) -> None:
    pace = Pace(sample.binary, target_of(sample.binary))
    assert pace.legal(sample.binary.interval)
    assert pace.shortest(sample.binary.interval) == sample.binary.interval


@settings(deadline=None, max_examples=some(30), suppress_health_check=SLOW)
@given(graphs(), st.sampled_from(("lpu", "lpu2", "edge")), st.sampled_from(("balanced", "latency", "interval")))
def test_any_small_graph_states_the_shortest_interval_and_keeps_it(graph: Graph, name: str, objective: str) -> None:
    target = targets.load(name)
    binary = compiler.compile(graph, target, objective=objective).binary
    pace = Pace(binary, target)
    assert pace.legal(binary.interval)
    assert pace.shortest(binary.interval) == binary.interval
    feeds = [feeds_for(graph, seed) for seed in range(2 * binary.memory.copies + 1)]
    together, counters = simulate(binary.to_bytes(), feeds)
    assert counters.interval == binary.interval
    for feed, got in zip(feeds, together, strict=True):
        alone, _ = simulate(binary.to_bytes(), feed)
        assert all(alone[name].tobytes() == got[name].tobytes() for name in alone)


def test_both_ways_to_simulate_count_the_same_uses() -> None:
    compared = 0
    for sample in compiled.samples():
        binary, target = sample.binary, target_of(sample.binary)
        try:
            first = demand_of_whole(Whole(binary, target)).reservations
        except Unclear:
            continue
        second = demand_of_prepared(binary, target, Preparation(binary, target).run()).reservations
        assert (first.copies, first.least, first.span) == (second.copies, second.least, second.span)
        legal = [[is_legal(one, k) for k in range(1, binary.latency + 2)] for one in (first, second)]
        assert legal[0] == legal[1]
        compared += 1
    assert compared >= 4


def test_programs_of_the_format_before_keep_their_interval() -> None:
    sample = next(s for s in compiled.samples() if s.name == "dense-lpu2")
    outputs, counters = simulate(sample.binary.to_bytes(), sample.feeds[0])
    target = target_of(sample.binary)
    uses = demand_of_whole(Whole(sample.binary, target)).reservations
    legal = [k for k in range(sample.binary.interval, sample.binary.latency + 1) if is_legal(uses, k)]
    assert len(legal) > 1
    for stated in (*legal[:3], legal[-1]):
        before = replace(sample.binary, interval=stated, derived=False)
        data = before.to_bytes()
        assert data[8:12] == b"\4\0\0\0"
        assert Binary.from_bytes(data) == before
        again, counted = simulate(data, sample.feeds[0])
        assert counted == replace(counters, interval=stated)
        assert all(again[name].tobytes() == outputs[name].tobytes() for name in outputs)


def test_programs_of_the_format_before_state_no_interval_that_is_illegal_or_longer_than_an_inference() -> None:
    sample = compiled.samples()[0]
    for wrong in (sample.binary.interval - 1, sample.binary.latency + 1):
        with pytest.raises(ModelError, match=f"states an inference every {wrong} cycles"):
            simulate(replace(sample.binary, interval=wrong, derived=False).to_bytes(), sample.feeds[0])


def test_what_is_promised_of_the_interval_is_in_the_text_form(sample: Sample) -> None:
    for derived in (True, False):
        binary = replace(sample.binary, derived=derived)
        assert assemble(disassemble(binary), binary.constants, bytes(binary.external)) == binary


def test_a_schedule_may_repeat_sooner_than_it_was_made_for() -> None:
    program = compiler.compile(compiler.load("samples/digits-small.onnx"), "edge", "int8", objective="latency")
    assert shortest(replace(program.binary, interval=program.binary.latency), targets.load("edge")) == (
        program.resources.interval
    )


_uses = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 6)), max_size=9)


def _apart(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The uses that do not meet an earlier one of the same inference."""
    kept: list[tuple[int, int, int]] = []
    for resource, begin, length in rows:
        if all(r != resource or begin >= b + n or b >= begin + length for r, b, n in kept):
            kept.append((resource, begin, length))
    return kept


def _of(rows: list[tuple[int, int, int]]) -> Uses:
    resource, begin, length = np.array(rows, np.int64).reshape(-1, 3).T
    return Uses(resource, begin, begin + length)


@given(_uses, _uses, st.integers(1, 3), st.integers(0, 12))
def test_the_shortest_interval_is_the_first_at_which_no_resource_is_used_twice(
    fixed: list[tuple[int, int, int]], moving: list[tuple[int, int, int]], copies: int, least: int
) -> None:
    fixed, moving = _apart(fixed), _apart(moving)
    span = max([b + n for _, b, n in fixed + moving], default=1)
    found = Reservations(_of(fixed), _of(moving), copies, least, span)

    def legal(interval: int) -> bool:
        for rows, period in ((fixed, interval), (moving, interval * copies)):
            cycles = [(r, (b + at) % period) for r, b, n in rows for at in range(n)]
            if len(cycles) != len(set(cycles)):
                return False
        return interval >= max(1, least)

    truth = [k for k in range(1, span + 1) if legal(k)]
    assert [k for k in range(1, span + 1) if is_legal(found, k)] == truth
    for stated in (span, span // 2):
        assert found.shorter(stated) == next((k for k in truth if k < stated), None)


def test_lines_that_are_sorted_a_part_at_a_time_give_the_same_interval(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compiler.simulator.occupancy._AT_ONCE", 3)
    true = sample.binary.interval
    assert simulate(sample.binary.to_bytes(), sample.feeds[0])[1].interval == true
    for wrong in {true - 1, true + 1} - {0}:
        with pytest.raises(ModelError, match=f"states an inference every {wrong} cycles"):
            simulate(replace(sample.binary, interval=wrong).to_bytes(), sample.feeds[0])
