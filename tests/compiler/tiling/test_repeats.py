"""What a repeated block asks is answered once, and the program is the one that is made without remembering."""

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.isa import timings as instruction_times
from compiler.isa.timings import Timings
from compiler.tiling import contraction
from compiler.tiling.stationary import DataflowSelector
from tests.compiler.graphs import graphs
from tests.compiler.passes.test_row_tiling import transformer
from tests.tiers import some


def made(graph, target="lpu", precision="float32"):
    return compiler.compile(graph, target, precision).to_bytes()


def cold(graph, target="lpu", precision="float32"):
    """The program without what is remembered of other operations."""
    with ExitStack() as stack:
        stack.enter_context(
            patch.object(DataflowSelector, "_known_price", lambda self, node, side, _: self._priced(node, side))
        )
        stack.enter_context(patch.object(contraction, "_form", lambda *_: None))
        stack.enter_context(patch.object(Timings, "form", lambda *given: given[1]))
        return made(graph, target, precision)


@settings(max_examples=some(40), deadline=None)
@given(graph=graphs(), target=st.sampled_from(("lpu", "edge")))
def test_random_graphs_compile_to_the_same_program(graph, target):
    assert made(graph, target) == cold(graph, target)


@settings(max_examples=some(12), deadline=None)
@given(
    tokens=st.integers(2, 40),
    heads=st.integers(1, 3),
    depth=st.sampled_from((4, 8, 20)),
    layers=st.integers(1, 3),
    masked=st.booleans(),
    wide=st.integers(0, 3),
    target=st.sampled_from(("lpu", "edge")),
)
def test_repeated_blocks_compile_to_the_same_program(tokens, heads, depth, layers, masked, wide, target):
    model = transformer(tokens, heads, depth, layers, masked, wide).SerializeToString()
    graph = compiler.load(model)
    assert made(graph, target) == cold(graph, target)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_more_equal_layers_ask_no_more(precision):
    counts = []
    for layers in (4, 7):
        graph = compiler.load(transformer(16, 2, 16, layers, wide=2).SerializeToString())
        asked = Counter()

        def counted(name, work, asked=asked):
            return lambda *given, **more: asked.update([name]) or work(*given, **more)

        with (
            patch.object(DataflowSelector, "_priced", counted("prices", DataflowSelector._priced)),
            patch.object(contraction, "_chosen", counted("cuts", contraction._chosen)),
            patch.object(instruction_times, "time", counted("times", instruction_times.time)),
        ):
            made(graph, precision=precision)
        counts.append(asked)
    assert counts[0]["prices"]
    assert counts[0] == counts[1]
