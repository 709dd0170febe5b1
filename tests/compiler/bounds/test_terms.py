"""From when on work counts whose terms come one after the other: all at once where a beat takes a sum, else as they come."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.pace import ELSEWHERE, ON_PLANES
from compiler.bounds.problem import Problem
from compiler.bounds.times import Times
from compiler.bounds.ways import Ways
from compiler.bounds.work import forms
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.timing import ceil_div
from compiler.scheduling.build import build
from tests.compiler.bounds.test_barriers import chain
from tests.compiler.bounds.test_bounds import product
from tests.tiers import some

WHOLE = Access((0, 0), ((0, 1, 0), (0, 0, 1)))
DEPTH = 160  # float32 terms that a beat of an lpu plane takes


def behind_columns(rows, columns, kind="planes"):
    """Times of a product behind a normalisation of each column over all rows, and its node."""
    graph, machine = chain(rows, columns, ["columns", "product"]), targets.load("lpu")
    node = graph.nodes[-1]
    some = frozenset([node.output])
    known = {"planes": (some, frozenset()), "elsewhere": (frozenset(), some), "either": (frozenset(), frozenset())}
    return Times(Ways(graph), machine, *known[kind]), node


@pytest.mark.parametrize(("columns", "waits"), [(DEPTH, True), (DEPTH + 1, False)])
def test_planes_wait_for_all_terms_of_sums_that_fit_into_a_beat(columns, waits):
    times, node = behind_columns(640, columns)
    row = times.ready(node.operands[0].value, (1, columns))
    assert times.early[node.output] < row
    assert times.start[node.output] == (row if waits else times.early[node.output])


@pytest.mark.parametrize(("rows", "columns", "decide"), [(320, 160, True), (4, 4, False), (161, 200, False)])
def test_counts_by_lines_begin_with_the_first_terms(rows, columns, decide):
    graph, machine = product(rows, DEPTH, columns), targets.load("lpu")
    assert Times(Ways(graph), machine).pace.at_once(graph.nodes[0]) == decide


@pytest.mark.parametrize(("rows", "columns"), [(1, 40), (40, 40), (640, 40), (640, 160)])
def test_what_may_be_on_either_unit_is_complete_with_the_quicker_one(rows, columns):
    ready = {}
    for kind in ("planes", "elsewhere", "either"):
        times, node = behind_columns(rows, columns, kind)
        ready[kind] = times.ready(node.output, (rows, columns))
    assert ready["either"] == min(ready["planes"], ready["elsewhere"])


def test_a_kind_that_is_asked_for_is_the_kind_that_is_known():
    either, node = behind_columns(40, 40, "either")
    for kind, name in ((ON_PLANES, "planes"), (ELSEWHERE, "elsewhere")):
        known, _ = behind_columns(40, 40, name)
        assert either.pace.step(node, kind) == known.pace.step(node)
        for box in ((1, 1), (3, 40), (40, 40)):
            assert either.pace.body(node, box, -1, kind) == known.pace.body(node, box, -1)


@settings(max_examples=some(200), deadline=None)
@given(
    depth=st.integers(1, 6),
    sums=st.integers(1, 4),
    data=st.data(),
)
def test_beats_for_parts_of_sums_that_fit_into_one_save_none(depth, sums, data):
    """Of any beats before the last term is there, none ends a sum, however many terms they take."""
    terms = data.draw(st.integers(1, depth))
    done = [data.draw(st.integers(0, terms - 1)) for _ in range(sums)]
    assert sum(ceil_div(terms - early, depth) for early in done) == sums == sums * ceil_div(terms, depth)


@pytest.mark.parametrize("rows", [1, 40, 640])
@pytest.mark.parametrize("columns", [7, 64, 160, 320])
@pytest.mark.parametrize("steps", [["columns", "product"], ["columns", "product", "columns", "product"]])
def test_no_program_behind_columns_beats_its_bound(rows, columns, steps):
    graph, machine = chain(rows, columns, steps), targets.load("lpu")
    assert build(graph, machine, quiet, objective="latency").latency >= bounds(graph, machine).latency


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_outputs_that_need_all_of_a_value_leave_behind_it(outputs):
    """They share the link, so its last element is followed by the first element of one of them and by all of their bytes."""
    rows, columns = 40, 64
    b = Builder("leaving")
    x = b.input("x", TensorType(DType.F32, (rows, columns)))
    most = b.compute((1, rows, columns), [Operand(x, WHOLE)], arg(0, DType.F32), parallel=1, reducer="max")
    both = [Operand(x, Access.identity(2)), Operand(most, Access((0,), ((0, 0),)))]
    less = [b.compute((rows, columns), both, arg(0, DType.F32) - arg(1, DType.F32) * (n + 1.0)) for n in range(outputs)]
    graph, machine = b.finish({f"y{n}": value for n, value in enumerate(less)}, {}, {}), targets.load("lpu")
    times = Problem(
        graph, machine, Ways(graph), list(graph.nodes), [forms(n, graph, machine) for n in graph.nodes]
    ).times
    leave = outputs * rows * columns * 4 // machine.link_out.bytes_per_cycle + machine.link_out.latency
    steps = [times.pace.step(node) for node in graph.nodes]
    assert times.tail["x"] == steps[0] + steps[1] + leave
    assert bounds(graph, machine).latency <= build(graph, machine, quiet, objective="latency").latency
