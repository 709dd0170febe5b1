"""Indices that are known of what is read, and operands that are read behind a reduction alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.pinned import behind, renamed
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.compiler.bounds.test_names import SHAPES
from tests.tiers import some

F32 = DType.F32
STEP = 13  # cycles of a map of one operation on an lpu


@settings(max_examples=some(150), deadline=None)
@given(before=st.sampled_from(SHAPES), after=st.sampled_from(SHAPES), data=st.data())
def test_elements_at_known_indices_have_the_indices_that_are_said_behind_a_reshape(before, after, data):
    pins = tuple(data.draw(st.one_of(st.none(), st.integers(0, n - 1))) for n in after)
    found = renamed(before, after, pins)
    numbers = np.arange(np.prod(before)).reshape(after)
    taken = numbers[tuple(slice(None) if at is None else slice(at, at + 1) for at in pins)]
    for along, at in zip(np.unravel_index(taken, before), found, strict=True):
        assert at is None or (along == at).all()


def test_of_a_join_the_part_with_the_index_is_taken():
    b = Builder("join")
    parts = [b.input(f"x{n}", TensorType(F32, (2, size))) for n, size in enumerate((3, 1, 5))]
    graph = b.finish({"y": b.join(parts, 1)}, {}, {})
    node = graph.nodes[-1]
    assert behind(node, graph, (2, 1), (None, 2)) == [("x0", (2, 1), (None, 2))]
    assert behind(node, graph, (2, 1), (None, 3)) == [("x1", (2, 1), (None, None))]
    assert behind(node, graph, (1, 1), (1, 4)) == [("x2", (1, 1), (1, 0))]


def steps_of(b, frames, rows):
    """A sequence in which each step reads the one before and a row of ``frames``: all steps."""
    found, value = [], None
    for row in rows:
        operands = [Operand(frames, Access((row, 0), ((0, 0), (0, 1))))]
        operands += [] if value is None else [Operand(value, Access.identity(2))]
        term = arg(0, F32) if value is None else arg(0, F32) + arg(1, F32)
        value = b.compute((1, 8), operands, term.op("tanh"))
        found.append(value)
    return found


@pytest.mark.parametrize("shape", [(9, 8), (9, 2, 4)])
def test_a_sequence_that_begins_where_another_ends_is_behind_all_of_it(shape):
    b = Builder("sequences")
    rows = range(9)
    joined = b.reshape(b.join(steps_of(b, b.input("x", TensorType(F32, (9, 8))), rows), 0), shape)
    scaled = b.compute(shape, [Operand(joined, Access.identity(len(shape)))], arg(0, F32).op("exp"))
    last = steps_of(b, b.reshape(scaled, (9, 8)), reversed(rows))[-1]
    graph, machine = b.finish({"y": last}, {}, {}), targets.load("lpu")
    found = bounds(graph, machine).latency
    assert 2 * 9 * STEP < found <= build(graph, machine, quiet).latency


def late(steps, extra):
    """A product of a row of 128, with so many more operands behind the sums, one of which comes behind ``steps`` maps."""
    b = Builder("late")
    x, value = b.input("x", TensorType(F32, (1, 128))), b.input("v", TensorType(F32, (1, 128)))
    for _ in range(steps):
        value = b.compute((1, 128), [Operand(value, Access.identity(2))], arg(0, F32).op("tanh"))
    rng = np.random.default_rng(0)
    weights = b.constant(rng.standard_normal((128, 128)).astype(np.float32))
    across = Access((0,), ((0, 1, 0),))
    operands = [
        Operand(x, Access((0, 0), ((1, 0, 0), (0, 0, 1)))),
        Operand(weights, Access((0, 0), ((0, 0, 1), (0, 1, 0)))),
    ]
    operands += [Operand(b.constant(rng.standard_normal(128).astype(np.float32)), across) for _ in range(extra)]
    operands.append(Operand(value, Access((0, 0), ((1, 0, 0), (0, 1, 0)))))
    post = arg(-1, F32)
    for n in range(2, len(operands)):
        post = post + arg(n, F32)
    y = b.compute((1, 128, 128), operands, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum", post=post)
    return b.finish({"y": y}, {}, {})


@pytest.mark.parametrize("extra", range(5))
def test_what_is_read_behind_the_sums_may_come_when_they_are_made(extra):
    graph, machine = late(9, extra), targets.load("lpu")
    assert bounds(graph, machine).latency <= build(graph, machine, quiet).latency
