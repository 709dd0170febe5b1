"""No program that this compiler makes beats its bound, and the bound says what it should on shapes worked out by hand."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg, const
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.compiler.contractions import small
from tests.compiler.graphs import graphs
from tests.tiers import some

F32 = DType.F32


def product(rows, inner, columns, *, layers=1):
    """A chain of matrix products with constant weights."""
    b = Builder("product")
    value = b.input("x", TensorType(F32, (rows, inner)))
    rng = np.random.default_rng(0)
    for _ in range(layers):
        weights = b.constant(rng.standard_normal((inner, columns)).astype(np.float32))
        loops = (rows, columns, inner)
        left = Operand(value, Access((0, 0), ((1, 0, 0), (0, 0, 1))))
        right = Operand(weights, Access((0, 0), ((0, 0, 1), (0, 1, 0))))
        value = b.compute(loops, [left, right], arg(0, F32) * arg(1, F32), parallel=2, reducer="sum")
    return b.finish({"y": value}, {}, {})


@pytest.mark.parametrize("target", ["lpu", "lpu2"])
@settings(max_examples=some(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(max_nodes=6))
def test_no_compiled_random_graph_beats_its_bound(target, graph):
    machine = targets.load(target)
    plan = build(graph, machine, quiet)
    found = bounds(graph, machine)
    assert found.latency <= plan.latency
    assert found.interval <= plan.interval


@settings(max_examples=some(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.integers(1, 600), inner=st.integers(1, 400), columns=st.integers(1, 400), layers=st.integers(1, 3))
def test_no_compiled_chain_of_products_beats_its_bound(rows, inner, columns, layers):
    machine = targets.load("lpu")
    graph = product(rows, inner, inner if layers > 1 else columns, layers=layers)
    plan = build(graph, machine, quiet)
    found = bounds(graph, machine)
    assert found.latency <= plan.latency
    assert found.interval <= plan.interval


def test_a_product_that_fills_the_planes_is_bound_by_its_passes():
    machine = targets.load("lpu")
    found = bounds(product(4096, 320, 320), machine)
    passes = 4096 * 4  # two tiles along K by two along N
    link = 4096 * 320 * 4 // 32
    assert found.interval == link  # 5 MB over a 32-byte link take longer than 4,096 cycles on four planes
    assert found.interval_limit in {"the link_in port", "the link_out port"}
    assert link < found.latency < link + passes


def test_the_latency_of_a_chain_grows_with_every_layer_by_at_least_a_latency():
    machine = targets.load("lpu")
    one, four = (bounds(product(1, 160, 160, layers=n), machine).latency for n in (1, 4))
    assert four >= one + 3 * (min(machine.vector.latency, machine.matrix.latency) + 1)


def test_what_a_slice_hides_is_not_counted():
    machine = targets.load("lpu")

    def sliced(width):
        b = Builder("sliced")
        x = b.input("x", TensorType(F32, (64, 1024)))
        y = b.compute((64, 1024), [Operand(x, Access.identity(2))], (arg(0, F32) + const(1.0, F32)).op("erf").op("erf"))
        return b.finish({"y": b.view(y, (64, width), Access.identity(2))}, {}, {})

    whole, narrow = (bounds(sliced(n), machine) for n in (1024, 8))
    assert narrow.latency <= whole.latency
    assert narrow.interval <= whole.interval


def test_weights_that_slots_hold_may_be_loaded_before_their_operation_can_begin():
    machine = targets.load("lpu")

    def graph(steps, columns):
        b = Builder("late")
        value = b.input("x", TensorType(F32, (1, 320)))
        for _ in range(steps):  # each needs all of the one before
            value = b.compute((1, 320), [Operand(value, Access.identity(2))], arg(0, F32), parallel=1, reducer="max")
            value = b.compute((1, 320), [Operand(value, Access((0,), ((1, 0),)))], arg(0, F32).op("tanh"))
        weights = b.constant(np.ones((320, columns), np.float32))
        left, right = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))
        operands = [Operand(value, left), Operand(weights, right)]
        product_ = b.compute((1, columns, 320), operands, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum")
        return b.finish(
            {
                "y": b.compute(
                    (1, columns), [Operand(product_, Access.identity(2))], arg(0, F32), parallel=1, reducer="max"
                )
            },
            {},
            {},
        )

    chain = bounds(graph(20, 1), machine).latency
    held, more = bounds(graph(20, 640), machine), bounds(graph(20, 8000), machine)  # slots hold 640 columns
    assert chain > 400
    assert "weights" in more.interval_limit
    assert chain <= held.latency < chain + held.interval // 2
    assert chain + more.interval * 8 // 10 <= more.latency < chain + more.interval
    assert build(graph(20, 8000), machine, quiet, objective="latency").latency >= more.latency


def test_what_is_read_only_through_padding_does_not_follow_its_input():
    b = Builder("padding")
    x = b.input("x", TensorType(F32, (2,)))
    seen = b.compute((2,), [Operand(x, Access.identity(1))], arg(0, F32) + 1.0)
    beside = b.view(seen, (1,), Access((-1,), ((1,),)), fill=0)
    graph = b.finish({"y": beside, "z": b.view(x, (2,), Access.identity(1))}, {}, {})
    machine = targets.load("lpu2")
    assert bounds(graph, machine).latency <= build(graph, machine, quiet).latency


@pytest.mark.parametrize("rows", [3, 4, 6])
@pytest.mark.parametrize("terms", [2, 3, 4, 8])
def test_sums_that_vector_lanes_make_one_term_after_the_other_wait_for_no_tree(rows, terms):
    b = Builder("terms")
    x = b.input("x", TensorType(F32, (rows, 1, terms)))
    term = Operand(x, Access((0, 0, 0), ((1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 1))))
    post = (arg(-1, F32) * 0.5).op("sigmoid")
    loops = (rows, 1, 1, terms)
    y = b.compute(loops, [term, term], arg(0, F32) * arg(1, F32), parallel=3, reducer="sum", post=post)
    graph, machine = b.finish({"y": y}, {}, {}), small(6, 10, lanes=6, alus=1)
    assert bounds(graph, machine).latency <= build(graph, machine, quiet, objective="latency").latency
