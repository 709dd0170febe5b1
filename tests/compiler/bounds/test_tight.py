"""Bounds that programs reach: whatever makes one of them a hundredth larger is refuted by a program that runs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from compiler import targets
from compiler.bounds import bound, bounds, planes, times, work
from compiler.bounds.demand import Demands
from compiler.driver import quiet
from compiler.frontend.states import with_states
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.compiler.bounds.test_barriers import chain
from tests.compiler.bounds.test_bounds import product
from tests.compiler.contractions import small

F32 = DType.F32


def maps(count, shape):
    """Maps of two steps each, one after the other."""
    b = Builder("maps")
    value = b.input("x", TensorType(F32, shape))
    for _ in range(count):
        value = b.compute(shape, [Operand(value, Access.identity(len(shape)))], arg(0, F32).op("exp").op("sigmoid"))
    return b.finish({"y": value}, {}, {})


def recurrent(states, steps):
    """States that hand on to the next, each over as many maps as ``steps`` says."""
    b = Builder("recurrent")
    shape = (8,)
    u = b.input("u", TensorType(F32, shape))
    old = [b.input(f"s{n}", TensorType(F32, shape)) for n in range(states)]
    here = Access.identity(1)
    new = {}
    for n, value in enumerate(old):
        for _ in range(steps[n]):
            value = b.compute(shape, [Operand(value, here), Operand(u, here)], arg(0, F32).op("exp") + arg(1, F32))
        new[f"t{(n + 1) % states}"] = value
    graph = b.finish({**new, "y": b.compute(shape, [Operand(u, here)], arg(0, F32) + 1.0)}, {}, {})
    return with_states(graph, [(f"s{n}", f"t{n}") for n in range(states)])


def test_a_product_whose_passes_are_full_runs_in_exactly_its_bound():
    graph, machine = product(640, 16, 24), small(planes=1)
    plan, found = build(graph, machine, quiet), bounds(graph, machine)
    assert (plan.interval, plan.latency) == (found.interval, found.latency) == (640 * 2 * 4, 640 * 2 * 4 + 6)


def test_maps_that_fill_the_lanes_run_in_exactly_their_bound():
    graph, machine = maps(3, (4000,)), small()
    plan, found = build(graph, machine, quiet), bounds(graph, machine)
    assert (plan.interval, plan.latency) == (found.interval, found.latency)
    assert found.interval >= 3 * 4000 * 2 // (8 * 2)


@pytest.mark.parametrize("name", ["beats", "by_sums"])
def test_a_hundredth_more_passes_are_refuted_by_a_program(name, monkeypatch):
    module = work if name == "beats" else planes
    counted = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a: counted(*a) * Fraction(101, 100))
    graph, machine = product(640, 16, 24), small(planes=1)
    assert bounds(graph, machine).interval > build(graph, machine, quiet).interval


def test_a_hundredth_more_vector_work_is_refuted_by_a_program(monkeypatch):
    counted = bound.forms
    monkeypatch.setattr(
        bound, "forms", lambda *a: [{unit: w * Fraction(101, 100) for unit, w in form.items()} for form in counted(*a)]
    )
    graph, machine = maps(3, (4000,)), small()
    assert bounds(graph, machine).interval > build(graph, machine, quiet).interval


def test_a_link_that_were_a_hundredth_slower_is_refuted_by_a_program(monkeypatch):
    transfer = bound.transfer
    monkeypatch.setattr(bound, "transfer", lambda *a: transfer(*a) + -(-transfer(*a) // 100))
    graph, machine = maps(1, (4000,)), small()
    machine = replace(machine, link_in=replace(machine.link_in, bytes_per_cycle=4))
    assert bounds(graph, machine).interval > build(graph, machine, quiet).interval


def test_a_way_out_behind_a_barrier_that_were_a_hundredth_longer_is_refuted_by_a_program(monkeypatch):
    transfer = times.transfer
    graph, machine = chain(40, 64, ["whole"]), targets.load("lpu")
    machine = replace(machine, link_out=replace(machine.link_out, bytes_per_cycle=1))
    least = build(graph, machine, quiet, objective="latency").latency
    assert bounds(graph, machine).latency <= least
    monkeypatch.setattr(times, "transfer", lambda *a: transfer(*a) + -(-transfer(*a) // 100))
    assert bounds(graph, machine).latency > least


@pytest.mark.parametrize(("states", "steps", "mean"), [(1, [2], 2), (2, [1, 3], 2), (3, [1, 1, 4], 2)])
def test_states_that_depend_on_each_other_bound_the_interval_by_the_mean_of_their_circle(states, steps, mean):
    graph, machine = recurrent(states, steps), targets.load("lpu")
    found, plan = bounds(graph, machine), build(graph, machine, quiet)
    assert found.interval == mean * (1 + machine.vector.latency) <= plan.interval
    assert found.interval_limit == "a state that depends on itself"


def test_a_state_that_only_part_of_itself_flows_into_bounds_nothing():
    b = Builder("shift")
    line = b.input("s0", TensorType(F32, (8,)))
    u = b.input("u", TensorType(F32, (1,)))
    tail = b.view(line, (7,), Access((1,), ((1,),)))
    graph = b.finish({"t0": b.join([tail, u], 0), "y": b.view(line, (1,), Access((0,), ((1,),)))}, {}, {})
    graph = with_states(graph, [("s0", "t0")])
    assert bounds(graph, targets.load("lpu")).interval < 1 + targets.load("lpu").vector.latency


def test_a_contraction_that_the_vector_unit_would_take_too_long_for_counts_the_planes_latency():
    machine = targets.load("lpu")
    slow = replace(machine, matrix=replace(machine.matrix, latency=400))
    # 320 x 320 products of 320 take 100,000 cycles on the vector unit: both layers are on the planes, one after the other
    assert bounds(product(320, 320, 320, layers=2), slow).latency >= 2 * 400


@pytest.mark.parametrize("parts", [((0, 4), (4, 8)), ((0, 3), (2, 8)), ((0, 8),)])
def test_slices_that_together_are_everything_demand_everything(parts):
    b = Builder("slices")
    x = b.input("x", TensorType(F32, (4, 8)))
    whole = b.compute((4, 8), [Operand(x, Access.identity(2))], arg(0, F32).op("exp"))
    cut = {
        f"y{n}": b.view(whole, (4, end - at), Access((0, at), ((1, 0), (0, 1)))) for n, (at, end) in enumerate(parts)
    }
    graph = b.finish(cut, {}, {})
    made = next(n.output for n in graph.nodes if n.name == graph.nodes[0].name)
    assert Demands(graph).share(made) == 1


def test_windows_with_gaps_demand_what_lies_under_them():
    b = Builder("windows")
    x = b.input("x", TensorType(F32, (9,)))
    y = b.compute((9,), [Operand(x, Access.identity(1))], arg(0, F32).op("exp"))
    reads = [Operand(y, Access((at,), ((3,),))) for at in (0, 1)]
    graph = b.finish({"z": b.compute((3,), reads, arg(0, F32).op("max", arg(1, F32)))}, {}, {})
    demands = Demands(graph)
    assert demands.share(graph.nodes[0].output) == Fraction(6, 9)
    assert demands.box(graph.nodes[0].output) == (6,)


def test_a_gather_at_known_places_demands_just_those():
    b = Builder("gather")
    x = b.input("x", TensorType(F32, (6, 2)))
    y = b.compute((6, 2), [Operand(x, Access.identity(2))], arg(0, F32).op("exp"))
    places = b.constant(np.array([5, 0, -1]))
    index = Operand(places, Access((0,), ((1, 0),)))
    graph = b.finish({"z": b.gather(y, (3, 2), Access((0, 0), ((0, 0), (0, 1))), [index, None])}, {}, {})
    assert Demands(graph).share(graph.nodes[0].output) == Fraction(2, 6)


@pytest.mark.parametrize("alike", [True, False])
def test_weights_that_two_products_share_are_loaded_once(alike):
    """Rows of two inputs by the same matrix: a tile of it may stay in a plane for both."""
    machine = targets.load("lpu")

    def cycles(*seeds):
        b = Builder("shared")
        made, known = {}, {}
        for n, seed in enumerate(seeds):
            x = b.input(f"x{n}", TensorType(F32, (1, 320)))
            if seed not in known:
                known[seed] = b.constant(np.random.default_rng(seed).standard_normal((320, 8000)).astype(np.float32))
            sides = [Operand(x, Access((0, 0), ((1, 0, 0), (0, 0, 1))))]
            sides.append(Operand(known[seed], Access((0, 0), ((0, 0, 1), (0, 1, 0)))))
            y = b.compute((1, 8000, 320), sides, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum")
            made[f"y{n}"] = b.compute(
                (1, 8000), [Operand(y, Access.identity(2))], arg(0, F32), parallel=1, reducer="max"
            )
        return bounds(b.finish(made, {}, {}), machine).interval

    one, both = cycles(0), cycles(0, 0 if alike else 1)
    assert both < 3 * one // 2 if alike else both > 3 * one // 2
