"""Graphs larger than one tile, states, and steady operation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand, State
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.reporting import scheduled
from compiler.simulator import simulate
from tests.compiler.checks import binary_of, check_program, same
from tests.tiers import some

F32 = DType.F32


def product(b, x, n, seed, post=None, extra=()):
    """x[m, k] times seeded weights[k, n]."""
    (m, k) = b.shape(x)
    w = b.constant(np.random.default_rng(seed).standard_normal((k, n)).astype(np.float32))
    left, right = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))
    return b.compute(
        (m, n, k),
        [Operand(x, left), Operand(w, right), *extra],
        arg(0, F32) * arg(1, F32),
        parallel=2,
        reducer="sum",
        post=post,
    )


def two_products(m, k, n, last):
    b = Builder("two-products")
    x = b.input("x", TensorType(F32, (m, k)))
    b.source = ("first",)
    h = product(b, x, n, 1, arg(-1, F32).op("max", 0))
    b.source = ("second",)
    y = product(b, h, last, 2)
    return b.finish({"y": y}, {}, {})


def feeds(graph, seed):
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(graph.types[n].shape).astype(np.float32) for n in graph.inputs}


@settings(max_examples=some(8), deadline=None)
@given(
    st.integers(1, 260), st.integers(1, 380), st.integers(1, 380), st.integers(1, 200), st.sampled_from(["lpu", "lpu2"])
)
def test_products_of_many_tiles_are_exact_and_cost_what_was_said(m, k, n, last, target):
    graph = two_products(m, k, n, last)
    check_program(graph, target, [feeds(graph, 0)])


def test_units_overlap_and_no_instruction_covers_more_than_one_tile():
    graph = two_products(200, 320, 320, 160)
    target = targets.load("lpu")
    _, binary = binary_of(graph, target)
    rows = scheduled(binary, target)
    matrix = [r for r in rows if r.unit == "matrix"]
    others = [r for r in rows if r.unit in ("weights", "link_in", "link_out")]
    assert len({r.instance for r in matrix}) > 1
    assert any(a.start < b.start + b.duration and b.start < a.start + a.duration for a in matrix for b in others)
    depth, width = target.matrix.tiles["f32"]
    assert all(i.count2 <= depth and i.count3 <= width for i in binary.rows if i.opcode == 2)


def counter_graph():
    """total' = total + x; y = 2 * total (the old value)."""
    b = Builder("counter")
    x = b.input("x", TensorType(F32, (5, 70)))
    total = b.input("total", TensorType(F32, (5, 70)))
    here = Access.identity(2)
    b.source = ("add",)
    after = b.compute((5, 70), [Operand(total, here), Operand(x, here)], arg(0, F32) + arg(1, F32))
    b.source = ("double",)
    y = b.compute((5, 70), [Operand(total, here)], arg(0, F32) * 2)
    graph = b.finish({"y": y, "after": after}, {}, {})
    initial = np.full((5, 70), 0.5, np.float32)
    return replace(graph, inputs=("x",), states=(State("total", "after", initial),))


@pytest.mark.parametrize("target", targets.names())
def test_a_state_is_read_before_it_is_replaced_and_lasts_to_the_next_inference(target):
    graph = counter_graph()
    plan, _ = check_program(graph, target, [feeds(graph, n) for n in range(4)])
    assert plan.map.state > 0


@pytest.mark.parametrize("target", targets.names())
def test_many_inferences_back_to_back_give_what_each_gives_alone(target):
    graph = two_products(40, 64, 96, 20)
    plan, binary = binary_of(graph, targets.load(target))
    several = [feeds(graph, n) for n in range(5)]
    outputs, counters = simulate(binary.to_bytes(), several)
    for feed, output in zip(several, outputs, strict=True):
        assert same(output["y"], run(graph, feed)["y"])
    assert counters.interval == plan.interval <= counters.cycles


def test_a_small_program_accepts_the_next_inference_before_the_last_has_left():
    graph = two_products(4, 16, 16, 4)
    plan, _ = binary_of(graph, targets.load("lpu"))
    assert plan.interval < plan.latency
