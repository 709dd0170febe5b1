"""What bounds take over from case to case is what they would count anew, and quick counts rule out nothing that matters."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bound, cases
from compiler.bounds.barriers import Bodies
from compiler.bounds.interval import Table, corner
from compiler.bounds.pace import Pace
from compiler.bounds.problem import Problem
from compiler.bounds.times import Times
from compiler.bounds.ways import Ways
from compiler.bounds.work import forms
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from tests.compiler.bounds.test_barriers import chain
from tests.tiers import some

F32 = DType.F32


@pytest.mark.parametrize("seed", range(6))
def test_cases_keep_what_would_be_counted_anew(seed):
    rng = np.random.default_rng(seed)
    machine = targets.load("lpu")
    steps = [str(s) for s in rng.choice(["map", "rows", "columns", "whole", "product", "beside"], 9)]
    steps[1] = steps[5] = "product"
    graph = chain(40, 64, steps)
    ways, nodes = Ways(graph), list(graph.nodes)
    work = [forms(node, graph, machine) for node in nodes]
    bodies = Bodies.of(nodes, Table.of(work, machine), [corner("matrix"), corner("vector")])
    products = [n.output for n in nodes if isinstance(n, Compute) and n.is_contraction]
    some = frozenset(products[:1])
    before = Times(ways, machine, some, frozenset(), bodies)
    changed = False
    for planes, elsewhere in ((frozenset(products), frozenset()), (some, frozenset(products[1:2]))):
        kept = Times(ways, machine, planes, elsewhere, bodies, before)
        anew = Times(Ways(graph), machine, planes, elsewhere, bodies)
        assert (kept.start, kept.early, kept.first) == (anew.start, anew.early, anew.first)
        assert kept.tail == anew.tail
        for name in graph.outputs:
            assert kept.ready(name, graph.types[name].shape) == anew.ready(name, graph.types[name].shape)
        changed |= before.tail != kept.tail or before.first != kept.first
    assert changed


@settings(max_examples=some(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.tuples(*[st.sampled_from([1, 3, 16, 70, 330])] * 3),
    taps=st.sampled_from([1, 2, 3]),
    padded=st.booleans(),
    data=st.data(),
)
def test_boxes_that_are_ruled_out_in_whole_numbers_take_no_longer(sizes, taps, padded, data):
    rows, columns, inner = sizes
    machine = targets.load("lpu")
    b = Builder("box")
    x = b.input("x", TensorType(F32, (rows + (0 if padded else taps - 1), inner)))
    weights = b.constant(np.ones((taps, inner, columns), np.float32))
    moving = Access((-1 if padded else 0, 0), ((1, 0, 1, 0), (0, 0, 0, 1)))
    fixed = Access((0, 0, 0), ((0, 0, 1, 0), (0, 0, 0, 1), (0, 1, 0, 0)))
    operands = [Operand(x, moving, 0.0 if padded else None), Operand(weights, fixed)]
    y = b.compute((rows, columns, taps, inner), operands, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum")
    graph = b.finish({"y": y}, {}, {})
    node = graph.nodes[-1]
    box = data.draw(st.tuples(st.integers(1, rows), st.integers(1, columns)))
    assume(box != (rows, columns))  # all of it is counted as it is, with what passes the ports
    ways = Ways(graph)
    for known in (frozenset([node.output]), frozenset()):
        pace = Pace(graph, machine, known, frozenset(), ways.counted)
        assert pace.body(node, box, -1) <= max(0, pace._most(node, box))


def some_products(rows, columns, steps):
    """A chain with products that both kinds of unit can make in about the same time."""
    graph, machine = chain(rows, columns, steps), targets.load("lpu")
    nodes = list(graph.nodes)
    return Problem(graph, machine, Ways(graph), nodes, [forms(node, graph, machine) for node in nodes])


def over_all_cases(problem):
    """The least bound of programs with each contraction on one kind of unit, over all choices."""
    names = list(problem.contested)
    choices = (
        frozenset(n for n, on in zip(names, which, strict=True) if on) for which in product([0, 1], repeat=len(names))
    )
    return min(bound._latency(problem.on(some, frozenset(names) - some))[0] for some in choices)


PRODUCTS = [
    (1, 48, ["product"] * 4),
    (6, 40, ["product", "map", "product", "rows", "product"]),
    (12, 64, ["product", "whole", "product", "map", "product"]),
    (40, 64, ["product", "columns", "product"]),
]


@pytest.mark.parametrize(("rows", "columns", "steps"), PRODUCTS)
def test_no_choice_of_units_has_a_smaller_bound_than_all_programs(rows, columns, steps):
    problem = some_products(rows, columns, steps)
    found = cases.least_latency(problem, bound._latency)[0]
    assert bound._latency(problem)[0] <= found <= over_all_cases(problem)


def test_contractions_that_would_take_too_long_elsewhere_are_on_the_planes():
    problem = some_products(
        40, 64, ["product", "rows", "product", "columns", "product", "map", "product", "rows", "product"]
    )
    found = cases.least_latency(problem, bound._latency)[0]
    assert found > bound._latency(problem)[0] + problem.machine.matrix.latency
    assert found * cases.WORTH >= over_all_cases(problem) * (cases.WORTH - 1)


def test_what_takes_less_elsewhere_than_the_aim_is_not_ruled_out(monkeypatch):
    takes = Problem.elsewhere_takes
    monkeypatch.setattr(Problem, "elsewhere_takes", lambda problem, name: 2 * takes(problem, name))
    problems = [some_products(*each) for each in PRODUCTS]
    assert any(cases.least_latency(p, bound._latency)[0] > over_all_cases(p) for p in problems)
