"""Elements that one element takes lie to each other as is said, and what lies apart on the link takes a cycle a piece."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.names import factored
from compiler.bounds.places import beats, renamed, taken
from compiler.bounds.reads import readings
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.tiers import some

F32 = DType.F32
SHAPES = [(24,), (4, 6), (6, 4), (2, 3, 4), (12, 2), (8, 3), (3, 8), (1, 24), (2, 12), (2, 2, 6)]


def along(steps):
    """All sums of multiples of the steps."""
    return {sum(p) for p in product(*(range(0, c * n, c) for c, n in steps))}


def moved_into(places, elements):
    """Whether the places, moved by some shift, are all among the elements."""
    sets = list(product(*(along(steps) for steps in places)))
    shifts = [tuple(e - s for e, s in zip(element, sets[0], strict=True)) for element in elements]
    return any(all(tuple(p + s for p, s in zip(at, shift, strict=True)) in elements for at in sets) for shift in shifts)


@settings(max_examples=some(200), deadline=None)
@given(before=st.sampled_from(SHAPES), after=st.sampled_from(SHAPES), data=st.data())
def test_places_behind_a_reshape_are_in_the_set_wherever_it_begins(before, after, data):
    b = Builder("renamed")
    y = b.reshape(b.input("x", TensorType(F32, before)), after)
    graph = b.finish({"y": y}, {}, {})
    steps = st.lists(st.tuples(st.integers(1, 6), st.integers(2, 4)), max_size=2).map(tuple)
    places = tuple(data.draw(st.one_of(steps, st.just(((1, n),) if n > 1 else ()))) for n in after)
    spans = [max(along(some)) for some in places]
    if before == after or any(span >= n for span, n in zip(spans, after, strict=True)):
        return
    found = renamed(graph.nodes[-1], graph, places)
    for shift in product(*(range(n - span) for n, span in zip(after, spans, strict=True))):
        elements = {tuple(p + s for p, s in zip(at, shift, strict=True)) for at in product(*map(along, places))}
        flat = [int(np.ravel_multi_index(at, after)) for at in elements]
        assert moved_into(found, {tuple(int(k) for k in np.unravel_index(at, before)) for at in flat})


@settings(max_examples=some(200), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_an_element_takes_what_lies_at_such_places(seed):
    rng = np.random.default_rng(seed)
    shape, loops = (12, 12), tuple(int(n) for n in rng.integers(1, 4, 4))
    b = Builder("taken")
    x = b.input("x", TensorType(F32, shape))
    matrix = tuple(tuple(int(c) for c in rng.choice([0, 0, 1, 2, 3, -1], 4)) for _ in shape)
    at = [int(o) for o in rng.integers(0, 7, 2)]
    operands = [
        Operand(x, Access((at[0] + i, at[1] + j), matrix), 0.0)
        for i, j in product(*(range(n) for n in rng.integers(1, 3, 2)))
    ]
    expr = sum((arg(n, F32) for n in range(1, len(operands))), arg(0, F32))
    graph = b.finish({"y": b.compute(loops, operands, expr, parallel=2, reducer="max")}, {}, {})
    outputs = tuple(((1, n),) if n > 1 and rng.random() < 0.5 else () for n in loops[:2])
    for first in product(*(range(n if not steps else 1) for n, steps in zip(loops[:2], outputs, strict=True))):
        sets = [range(n) if steps else [p] for n, steps, p in zip(loops[:2], outputs, first, strict=True)]
        points = product(*sets, *(range(n) for n in loops[2:]))
        read = {
            tuple(
                o + sum(c * k for c, k in zip(row, p, strict=True)) for o, row in zip(a.offset, a.matrix, strict=True)
            )
            for p in points
            for a in (o.access for o in operands)
        }
        read = {place for place in read if all(0 <= c < n for c, n in zip(place, shape, strict=True))}
        for reading in readings(graph.nodes[-1], graph):
            found = taken(reading, outputs)
            assert found is None or moved_into(found, read)


@settings(max_examples=some(200), deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 20), st.integers(2, 4)), min_size=1, max_size=3).map(tuple),
    together=st.integers(1, 9),
)
def test_no_choice_of_pieces_is_fewer(steps, together):
    at = sorted(along(steps))
    count, end = 0, -1
    for place in at:  # the fewest pieces that cover places on a line begin at the first place that is left
        if place >= end:
            count, end = count + 1, place + together
    assert beats((1 << 10,), (steps,), together) <= count


def groups(rows, columns, every):
    """Each of ``every`` rows in turn belongs to one group; rows less the largest of their group and column."""
    b = Builder("groups")
    x = b.reshape(b.input("x", TensorType(F32, (rows * every, columns))), (rows, every * columns))
    whole = [Operand(x, Access((0, 0), ((0, 1), (1, 0))))]
    most = b.compute((every * columns, rows), whole, arg(0, F32), parallel=1, reducer="max")
    both = [Operand(x, Access.identity(2)), Operand(most, Access((0,), ((0, 1),)))]
    return b.finish({"y": b.compute((rows, every * columns), both, arg(0, F32) - arg(1, F32))}, {}, {})


@settings(max_examples=some(40), deadline=None)
@given(rows=st.integers(1, 60), columns=st.sampled_from([1, 2, 4, 8, 16, 40]), every=st.integers(1, 6))
def test_no_program_beats_its_bound_whatever_lies_apart(rows, columns, every):
    machine, graph = targets.load("lpu"), groups(rows, columns, every)
    plan = build(graph, machine, quiet, objective="latency")
    assert plan.latency >= bounds(graph, machine).latency


@pytest.mark.parametrize("columns", [2, 4, 8, 16])
def test_a_column_of_which_elements_lie_apart_comes_with_those_between(columns):
    """Of eight neighbours, which come in a cycle, two are of one group and column where two rows have four elements; else one."""
    rows, every, machine = 512, 2, targets.load("lpu")
    graph = groups(rows, columns, every)
    places = renamed(graph.nodes[0], graph, (((1, rows),), ()))
    assert places == (((every, rows),), ())
    pieces = beats((rows * every, columns), places, 8)
    assert pieces == (rows // 2 if columns == 2 else rows)
    out = -(-rows * every * columns * 4 // 32)
    assert bounds(graph, machine).latency >= 16 + pieces + out


def test_factors_of_both_shapes_are_named_once():
    found = list(factored((2048, 64), (512, 256)))
    assert found == [([0, 1], [0, 1], ([[512, 4], [64]], [[512], [4, 64]]))]
    assert all(prod(map(prod, one)) == prod(map(prod, other)) for _, _, both in found if both for one, other in [both])
