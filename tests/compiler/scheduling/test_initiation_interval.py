"""Inferences that overlap: each works in its own arena and gives what it gives alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler import load, targets
from compiler.driver import LONGEST, quiet
from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.passes import optimise, shape_for_units
from compiler.scheduling import initiation_interval
from compiler.scheduling.build import build, builds
from compiler.scheduling.initiation_interval import OBJECTIVES
from compiler.scheduling.modulo_scheduler import ModuloScheduler
from compiler.simulator import simulate
from tests.compiler.checks import binary_of, check_program
from tests.compiler.graphs import feeds_for, graphs
from tests.compiler.scheduling.test_reservation import masked
from tests.tiers import some

SMALL = Path(__file__).parents[3] / "samples" / "digits-small.onnx"


@pytest.mark.parametrize("target", ["lpu", "systolic", "edge"])
@settings(max_examples=some(8), deadline=None)
@given(graph=graphs(), seed=st.integers(0, 1000))
def test_inferences_in_turn_give_what_each_gives_alone(target, graph, seed):
    plan, _ = binary_of(graph, targets.load(target), objective="interval")
    feeds = [feeds_for(graph, seed + n) for n in range(plan.map.copies + 2)]
    check_program(graph, target, feeds, objective="interval")


@pytest.mark.parametrize("target", ["lpu", "lpu2", "edge"])
def test_a_long_chain_turns_through_its_arenas(target):
    graph = masked(4)
    plan, binary = binary_of(graph, targets.load(target), objective="interval")
    assert plan.map.copies > 1
    check_program(graph, target, [feeds_for(graph, n) for n in range(2 * plan.map.copies + 1)], objective="interval")
    fewer = replace(binary.memory, copies=1, activations=binary.memory.arena)
    feeds = [feeds_for(graph, n) for n in range(plan.map.copies + 1)]
    with pytest.raises(ModelError):
        simulate(replace(binary, memory=fewer).to_bytes(), feeds)


@pytest.mark.parametrize(("target", "objective"), [("lpu", "balanced"), ("lpu2", "balanced"), ("systolic", "latency")])
def test_periods_that_begin_alike_place_what_each_places_alone(target, objective, monkeypatch):
    digits = shape_for_units(optimise(load(SMALL.read_bytes())))
    placed = []
    place = ModuloScheduler._place
    monkeypatch.setattr(ModuloScheduler, "_place", lambda self, job: placed.append(job) or place(self, job))

    def made():
        placed.clear()
        plans = [build(g, targets.load(target), quiet, objective=objective) for g in (masked(3), digits)]
        return [(p.start, [t.unit for t in p.tiles], p.interval, p.map) for p in plans], len(placed)

    shared, fewer = made()
    monkeypatch.setattr(
        initiation_interval, "ModuloScheduler", lambda *given: ModuloScheduler(*given[:-1])
    )  # nothing is common
    alone, all_ = made()
    assert shared == alone
    assert fewer < all_


def test_programs_of_several_objectives_are_those_that_each_makes_alone():
    graph, target = masked(6), targets.load("lpu")
    together = builds(graph, target, quiet, objectives=OBJECTIVES)
    alone = [build(graph, target, quiet, objective=o) for o in OBJECTIVES]
    assert [(p.start, p.interval, p.map) for p in together] == [(p.start, p.interval, p.map) for p in alone]
    assert len({(p.latency, p.interval) for p in together}) > 1


def test_no_more_arenas_than_fit_and_none_lost_for_want_of_them():
    graph, target = masked(4), targets.load("lpu")
    plan = build(graph, target, quiet, objective="interval")
    assert plan.map.copies > 1
    spare = target.line_bytes * 64
    room = (
        target.on_chip(plan.map.total - plan.map.arena, 200 * len(plan.tiles)) // target.line_bytes * target.line_bytes
    )
    tight = build(graph, replace(target, memory_bytes=room + spare), quiet, objective="interval")
    assert 1 <= tight.map.copies <= plan.map.copies
    one = build(graph, replace(target, memory_bytes=target.line_bytes), quiet, objective="interval")
    assert one.map.copies == 1
    assert one.interval >= plan.interval


def test_a_program_takes_no_more_arenas_than_the_processor_has():
    graph, target = masked(4), targets.load("lpu")
    _, binary = binary_of(graph, target, objective="interval")
    few = replace(target, copies=binary.memory.copies - 1)
    with pytest.raises(ModelError, match="arenas"):
        simulate(binary.to_bytes(), feeds_for(graph, 0), few)
    simulate(binary.to_bytes(), feeds_for(graph, 0))  # what was given for once is not what the next one finds
    with pytest.raises(ModelError, match="equal arenas"):
        Binary.from_bytes(replace(binary, memory=replace(binary.memory, copies=0)).to_bytes())


def test_an_interval_costs_at_most_so_much_latency_and_throughput_any():
    digits = shape_for_units(optimise(load(SMALL.read_bytes())))
    lpu = targets.load("lpu")
    latency, free = builds(digits, lpu, quiet, objectives=("latency", "throughput"))
    longest = (latency.latency + free.latency) // 2
    held, same = builds(digits, lpu, quiet, objectives=("interval", "throughput"), longest=longest)
    assert latency.latency <= held.latency <= longest < free.latency == same.latency
    assert free.interval <= held.interval <= latency.interval


def test_the_compiler_keeps_the_latency_of_an_interval_within_four_times_its_bound():
    program = compiler.compile(load(SMALL.read_bytes()), "lpu", objective="interval")
    assert program.resources.cycles <= LONGEST * program.bounds["latency"]["bound"]
