"""What is behind a reduction takes whole cycles of an instruction: no instruction takes an item in less, and some take that."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.pace import Counted, Pace, _item
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa import flow
from compiler.isa.timing import ceil_div, tree_depth
from compiler.scheduling.build import build
from tests.tiers import some

F32 = DType.F32


@settings(max_examples=some(300), deadline=None)
@given(
    reduction=st.integers(1, 70),
    body=st.integers(1, 3),
    post=st.integers(0, 9),
    lanes=st.sampled_from([1, 4, 16, 64]),
    points=st.integers(1, 600),
)
def test_no_instruction_takes_an_item_in_less(reduction, body, post, lanes, points):
    least = _item(reduction, body, post, lanes, points)
    for n in {1, 2, lanes, lanes + 1, points, points // 2 + 1} & set(range(1, points + 1)):
        group = max(1, lanes // reduction)
        pace = flow.Pace(ceil_div(n, group), group, ceil_div(n * reduction, lanes) * body + ceil_div(n, lanes) * post)
        rows = np.arange(n)
        assert least <= int((pace.end(rows) - pace.begin(rows)).min())


def reduced(rows, terms, steps):
    """The sum of each row, with steps behind it, and a map of that."""
    b = Builder("reduced")
    x = b.input("x", TensorType(F32, (rows, terms)))
    post = arg(-1, F32)
    for _ in range(steps):
        post = post * 2.0
    whole = [Operand(x, Access.identity(2))]
    y = b.compute((rows, terms), whole, arg(0, F32), parallel=1, reducer="sum", post=post)
    return b.finish({"y": y}, {}, {})


@pytest.mark.parametrize(("terms", "steps"), [(320, 1), (320, 9), (64, 4), (8, 20), (700, 5)])
def test_one_sum_waits_for_whole_cycles_of_what_is_behind_it(terms, steps):
    graph, machine = reduced(1, terms, steps), targets.load("lpu")
    cycles = ceil_div(terms, 320) + ceil_div(steps, machine.vector.alus)
    node = graph.nodes[-1]
    step = Pace(graph, machine, frozenset(), frozenset(), Counted()).step(node)
    assert step == cycles + machine.vector.latency + tree_depth(terms)
    plan = build(graph, machine, quiet, objective="latency")
    assert plan.latency == bounds(graph, machine).latency


@settings(max_examples=some(60), deadline=None)
@given(rows=st.sampled_from([1, 3, 40, 320, 400]), terms=st.integers(2, 400), steps=st.integers(0, 20))
def test_no_program_of_sums_beats_its_bound(rows, terms, steps):
    graph, machine = reduced(rows, terms, steps), targets.load("lpu")
    plan, found = build(graph, machine, quiet, objective="latency"), bounds(graph, machine)
    assert plan.latency >= found.latency
    assert plan.interval >= found.interval


@pytest.mark.parametrize(
    ("length", "window", "before", "least"), [(16, 4, 0, 4), (15, 4, 0, 3), (16, 4, 3, 1), (9, 4, 4, 1)]
)
def test_windows_that_padding_cuts_wait_for_the_shortest_of_their_trees(length, window, before, least):
    count = ceil_div(length + before, window)
    b = Builder("windows")
    x = b.input("x", TensorType(F32, (length,)))
    taken = [Operand(x, Access((-before,), ((window, 1),)), float("-inf"))]
    graph = b.finish({"y": b.compute((count, window), taken, arg(0, F32), parallel=1, reducer="max")}, {}, {})
    machine = targets.load("lpu")
    pace = Pace(graph, machine, frozenset(), frozenset(), Counted())
    assert pace.latency(graph.nodes[-1]) == machine.vector.latency + tree_depth(least)
