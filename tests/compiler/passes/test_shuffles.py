"""Reductions read shuffled channels where they lie; nothing is stored in between."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand, Reshape, View
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import optimise
from compiler.passes.shuffles import shuffles
from compiler.passes.views import fold_views
from tests.tiers import some

F32 = DType.F32


def shuffled(groups, channels, side, reader):
    """An image whose channels are shuffled between groups, and a product per channel, a pool or a dense product of it."""
    b = Builder("shuffle")
    b.source = ("shuffle",)
    count = groups * channels
    x = b.input("x", TensorType(F32, (count, side, side)))
    apart = b.reshape(x, (groups, channels, side, side))
    turned = Access((0,) * 4, ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))
    mixed = b.reshape(b.view(apart, (channels, groups, side, side), turned), (count, side, side))
    rng = np.random.default_rng(groups)
    window = Access((0, -1, -1), ((1, 0, 0, 0, 0), (0, 1, 0, 1, 0), (0, 0, 1, 0, 1)))
    if reader == "depthwise":
        weights = b.constant(rng.standard_normal((count, 3, 3)).astype("f4"))
        taps = Access((0, 0, 0), ((1, 0, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)))
        operands, term = [Operand(mixed, window, 0.0), Operand(weights, taps)], arg(0, F32) * arg(1, F32)
        out = b.compute((count, side, side, 3, 3), operands, term, parallel=3, reducer="sum")
    elif reader == "pool":
        out = b.compute(
            (count, side, side, 3, 3), [Operand(mixed, window, 0.0)], arg(0, F32), parallel=3, reducer="max"
        )
    else:
        weights = b.constant(rng.standard_normal((5, count)).astype("f4"))
        read = Access((0, 0, 0), ((0, 0, 0, 1), (0, 1, 0, 0), (0, 0, 1, 0)))
        operands = [Operand(mixed, read), Operand(weights, Access((0, 0), ((1, 0, 0, 0), (0, 0, 0, 1))))]
        out = b.compute((5, side, side, count), operands, arg(0, F32) * arg(1, F32), parallel=3, reducer="sum")
    return b.finish({"out": out}, {}, {"opset": "0"})


@settings(max_examples=some(60), deadline=None)
@given(st.integers(2, 4), st.integers(2, 5), st.integers(2, 4), st.sampled_from(["depthwise", "pool", "dense"]))
def test_a_shuffle_is_read_in_place_with_the_same_bits_and_work(groups, channels, side, reader):
    graph = shuffled(groups, channels, side, reader)
    made = verify(shuffles(fold_views(graph)))
    assert not any(isinstance(n, View) for n in made.nodes)
    feeds = {"x": np.random.default_rng(1).standard_normal(graph.types["x"].shape).astype("f4")}
    assert np.array_equal(run(graph, feeds)["out"], run(made, feeds)["out"])
    work = [sum(n.operations for n in g.nodes if isinstance(n, Compute)) for g in (graph, made)]
    assert work[0] == work[1]


@pytest.mark.parametrize("reader", ["depthwise", "pool", "dense"])
def test_nothing_is_stored_for_a_shuffle_in_a_whole_graph(reader):
    graph = verify(optimise(shuffled(4, 6, 5, reader)))
    assert not any(isinstance(n, View) for n in graph.nodes)
    assert all(graph.types[n.input].shape != (24, 5, 5) for n in graph.nodes if isinstance(n, Reshape))
