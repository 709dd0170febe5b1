"""Sums over channels that are normalised over all positions, by groups of channels."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand, Reshape
from compiler.ir.interpreter import run
from compiler.ir.terms import arg, expression, index
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import by_groups
from compiler.passes.row_tiling import in_group
from compiler.scheduling.build import build
from tests.compiler.checks import check_program, same
from tests.tiers import some

LPU = targets.load("lpu")
WORDS = 40
FLOAT = [arg(n, DType.F32) for n in range(2)]
ROWS_LAST = Access((0, 0), ((0, 1), (1, 0)))  # loops: a channel, a position


def looked_up(positions, merged, width, taps, filters, *, whole=False, shown=False):
    """Look-ups, ``merged`` of them one position; from each channel its largest element is taken away, and a convolution along
    the positions adds up the channels. All numbers are small and whole, so sums are exact in any order. ``whole``: what is
    taken away is the largest of all channels; ``shown``: what is added up is an output, too."""
    random = np.random.default_rng(positions + 7 * merged + taps)
    b = Builder("looked_up")
    b.source = ("table",)
    words = b.input("words", TensorType(DType.I32, (positions * merged,)))
    table = b.constant(random.integers(-9, 10, (WORDS, width)).astype(np.float32))
    which = Operand(words, Access((0,), ((1, 0),)))
    x = b.gather(table, (positions * merged, width), Access((0, 0), ((0, 0), (0, 1))), (which, None))
    channels = width * merged
    x = b.reshape(x, (positions, channels))
    most = b.compute((channels, positions), [Operand(x, ROWS_LAST)], FLOAT[0], parallel=1, reducer="max")
    if whole:
        all_of_it = b.compute(
            (1, channels), [Operand(most, Access((0,), ((0, 1),)))], FLOAT[0], parallel=1, reducer="max"
        )
        read = Operand(all_of_it, Access((0,), ((0, 0),)))
    else:
        read = Operand(most, Access((0,), ((0, 1),)))
    y = b.compute((positions, channels), [Operand(x, Access.identity(2)), read], FLOAT[0].op("sub", FLOAT[1]))
    weights = b.constant(random.integers(-3, 4, (filters, channels, taps)).astype(np.float32))
    places = positions - taps + 1
    z = b.compute(  # loops: a filter, a place, a tap, a channel
        (filters, places, taps, channels),
        [
            Operand(y, Access((0, 0), ((0, 1, 1, 0), (0, 0, 0, 1)))),
            Operand(weights, Access((0, 0, 0), ((1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0)))),
        ],
        FLOAT[0].op("mul", FLOAT[1]),
        parallel=2,
        reducer="sum",
    )
    return b.finish({"z": z, "y": y} if shown else {"z": z}, {}, {})


def feed(graph):
    count = graph.types["words"].elements
    return {"words": np.random.default_rng(1).integers(0, WORDS, count).astype(np.int32)}


def product(graph):
    return next(n for n in graph.nodes if isinstance(n, Compute) and n.is_contraction)


@settings(max_examples=some(20), deadline=None)
@given(
    st.sampled_from([64, 96, 130]),
    st.sampled_from([(1, 128), (1, 192), (2, 64), (4, 64), (2, 128), (3, 64), (4, 96)]),
    st.sampled_from([4, 5, 8]),
    st.sampled_from([300, 320]),
)
def test_groups_of_channels_give_the_same_sums(positions, rows, taps, filters):
    graph = looked_up(positions, *rows, taps, filters)
    grouped = by_groups(graph, 1 << 10)
    verify(grouped)
    channels = rows[0] * rows[1]
    count = product(grouped).loops[2]
    assert grouped is not graph
    assert product(grouped).loops == (filters, positions - taps + 1, count, taps, channels // count)
    assert count % rows[0] == 0 or rows[0] % count == 0
    assert channels // count >= 64
    assert not any(isinstance(n, Reshape) for n in grouped.nodes)
    assert sum(getattr(n, "operations", 0) for n in grouped.nodes) == sum(
        getattr(n, "operations", 0) for n in graph.nodes
    )
    assert same(run(grouped, feed(graph), {})["z"], run(graph, feed(graph), {})["z"])


@pytest.mark.parametrize(
    "graph",
    [
        looked_up(128, 4, 64, 5, 256, whole=True),  # nothing can be taken away before all channels are there
        looked_up(128, 4, 64, 5, 256, shown=True),  # in the order of the model
        looked_up(128, 4, 64, 5, 100),  # few products
        looked_up(128, 8, 16, 5, 256),  # rows of too few channels
        looked_up(32, 4, 64, 5, 256),  # few positions
    ],
)
def test_what_would_gain_nothing_or_be_read_otherwise_stays(graph):
    assert by_groups(graph, 1 << 10) is graph


def test_a_small_normalisation_stays():
    graph = looked_up(128, 4, 64, 5, 256)
    assert by_groups(graph) is graph


def test_the_first_group_is_multiplied_while_the_next_is_looked_up():
    graph = looked_up(512, 4, 64, 5, 512)
    grouped = by_groups(graph)
    assert grouped is not graph
    plan, _ = check_program(grouped, "lpu", [feed(graph)])
    assert any(in_group(node) for node in plan.nodes)
    before, after = (build(g, LPU, quiet, objective="latency") for g in (graph, grouped))
    assert after.latency < before.latency

    def first(plan, unit):
        return min(s for tile, s in zip(plan.tiles, plan.start, strict=True) if tile.unit[0] == unit)

    last = max(s for tile, s in zip(after.tiles, after.start, strict=True) if tile.unit[0] == "move")
    assert first(after, "matrix") < last or first(after, "matrix") < first(before, "matrix")


def test_a_product_of_numbers_that_are_asked_where_they_stand_stays():
    graph = looked_up(128, 4, 64, 5, 256)
    at = expression(FLOAT[0] - FLOAT[1] + index(1).cast(DType.F32))
    nodes = [
        replace(n, expr=at) if isinstance(n, Compute) and n.reducer is None and not n.is_contraction else n
        for n in graph.nodes
    ]
    asked = graph.with_nodes(tuple(nodes), types=graph.types)
    assert by_groups(asked, 1 << 10) is asked
