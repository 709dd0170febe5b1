"""What slots cannot hold of the weights follows the data, and outputs of one contraction may share out its forms."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.pace import ELSEWHERE, ON_PLANES, Counted, Pace, least_mixture
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.compiler.bounds.test_bounds import product
from tests.compiler.contractions import small
from tests.tiers import some

F32 = DType.F32


def largest(rows, inner, columns, steps=0):
    """The largest of each row of a product by constant weights, with steps behind the sums."""
    b = Builder("largest")
    x = b.input("x", TensorType(F32, (rows, inner)))
    weights = b.constant(np.random.default_rng(0).standard_normal((inner, columns)).astype(np.float32))
    sides = [
        Operand(x, Access((0, 0), ((1, 0, 0), (0, 0, 1)))),
        Operand(weights, Access((0, 0), ((0, 0, 1), (0, 1, 0)))),
    ]
    post = arg(-1, F32)
    for _ in range(steps):
        post = post * 2.0
    made = b.compute((rows, columns, inner), sides, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum", post=post)
    whole = [Operand(made, Access.identity(2))]
    return b.finish({"y": b.compute((rows, columns), whole, arg(0, F32), parallel=1, reducer="max")}, {}, {})


@settings(max_examples=some(200), deadline=None)
@given(
    forms=st.lists(st.tuples(st.integers(0, 20), st.integers(-5, 20)), min_size=1, max_size=4),
    shares=st.lists(st.integers(1, 9), min_size=4, max_size=4),
)
def test_no_mixture_of_forms_takes_less_than_the_least(forms, shares):
    one, other = ([Fraction(form[k]) for form in forms] for k in (0, 1))
    least = least_mixture(one, other)
    used = shares[: len(forms)]
    mixed = [sum(Fraction(n, sum(used)) * x for n, x in zip(used, side, strict=True)) for side in (one, other)]
    assert least <= max(mixed)
    assert least <= min(map(max, one, other))


def body(graph, machine, kind=ON_PLANES):
    node = graph.nodes[0]
    pace = Pace(graph, machine, frozenset(), frozenset(), Counted())
    return pace.body(node, node.loops[: node.parallel], 0, kind)


@pytest.mark.parametrize(("tiles", "cycles"), [(8, 2), (12, 34), (40, 259)])
def test_weights_beyond_the_slots_are_loaded_behind_the_data(tiles, cycles):
    """Two slots of 160 x 160 on each of four planes, 40 cycles a load. A share of the weights moves past the row instead: 160
    cycles for what a slot holds, so that of 12 tiles some 7 in a hundred do."""
    machine = targets.load("lpu")
    graph = product(1, 160, 160 * tiles)
    assert body(graph, machine) == machine.matrix.latency + cycles
    assert body(graph, machine, ELSEWHERE) > machine.matrix.latency + cycles


def test_steps_behind_the_sums_may_be_shared_out_by_rows():
    """Two passes behind a plane, or one there and one on the vector unit, which makes as many elements as two planes: a third
    of the rows has both behind the planes."""
    machine = targets.load("lpu")
    graph = largest(4000, 160, 160, steps=6)
    assert body(graph, machine) == machine.matrix.latency + -(-4000 * 4 // (3 * 4))


@settings(max_examples=some(60), deadline=None)
@given(
    rows=st.integers(1, 12),
    inner=st.integers(1, 20),
    columns=st.integers(1, 120),
    steps=st.integers(0, 6),
    rate=st.sampled_from([4, 16, 64, 1 << 20]),
    planes=st.integers(1, 3),
    slots=st.integers(1, 3),
)
def test_no_program_beats_its_bound_whatever_its_slots_hold(rows, inner, columns, steps, rate, planes, slots):
    machine = small(planes=planes, slots=slots)
    machine = replace(machine, weights=replace(machine.weights, bytes_per_cycle=rate, latency=3))
    graph = largest(rows, inner, columns, steps)
    plan, found = build(graph, machine, quiet, objective="latency"), bounds(graph, machine)
    assert found.latency <= plan.latency
    assert found.interval <= plan.interval
