"""A band's filter lies where a plane takes it in the fewest line fetches, and holds the same elements there."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.costs.contraction import roles
from compiler.passes.legalise import legalise
from compiler.tiling import padded_layout, toeplitz
from compiler.tiling import place as pl
from compiler.tiling.layout import Layout
from compiler.tiling.lower import lower
from compiler.tiling.space import Space
from compiler.tiling.tiler import Tiler
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_bands import F16, F32, depthwise
from tests.compiler.tiling.test_narrow import feeds

LPU = targets.load("lpu")


def held(graph, sizes):
    """The band of a depthwise convolution, the groups of its weights' loops, the filter's natural place."""
    node = graph.nodes[0]
    found = toeplitz.slides(node, 1, graph)
    walk = toeplitz.banded(node, 1, tuple(zip(found, sizes, strict=True)))
    r = roles(walk.node, 1)
    t = graph.types[node.operands[1].value]
    place = pl.Place(node.operands[1].value, t.dtype, t.shape, 0, pl.row_major(t.shape, t.dtype.size))
    return walk.node, (tuple(r.batch), tuple(r.inner), tuple(r.columns)), place


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_more_fetches_than_before_and_every_element_where_its_strides_say(data):
    window = data.draw(st.tuples(st.integers(2, 5), st.integers(2, 5)))
    stride = tuple(data.draw(st.integers(1, k - 1)) for k in window)
    sizes = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 40)))
    size = tuple(n * s for n, s in zip((12 * sizes[0], 2 * sizes[1]), stride, strict=True))
    graph = depthwise(3, 1, size, window, stride, data.draw(st.sampled_from([(F16, F16), (F32, F32)])))
    if len(toeplitz.slides(graph.nodes[0], 1, graph)) < len(sizes):
        return
    node, groups, place = held(graph, sizes)
    count = tuple(int(np.prod([node.loops[i] for i in g])) for g in groups[1:])
    found = padded_layout.place_of_filter(node, 1, place, groups, count, LPU.line_bytes)
    lines = [padded_layout.fetches(node, 1, p, groups, count, LPU.line_bytes) for p in (found, place)]
    assert lines[0] <= lines[1]
    tiler = Tiler(graph, LPU, Layout(), Space(LPU))
    home = padded_layout.stored(place.buffer, found, tiler)
    array = graph.constants[place.buffer]
    if home != place:
        stored = tiler.space.buffers[home.buffer].data
        assert stored is not None
        np.testing.assert_array_equal(np.ndarray(array.shape, array.dtype, stored.data, 0, home.strides), array)
        assert np.count_nonzero(stored) == np.count_nonzero(array)


def test_columns_of_a_wide_band_are_one_run():
    node, groups, place = held(depthwise(2, 1, (120, 160), (3, 3), (1, 1), (F16, F16)), (4, 40))
    lines = [
        padded_layout.fetches(node, 1, p, groups, (6 * 42, 160), LPU.line_bytes)
        for p in (place, padded_layout.place_of_filter(node, 1, place, groups, (6 * 42, 160), LPU.line_bytes))
    ]
    assert lines == [
        960,
        252,
    ]  # a line for each of 42 taps' runs or of 160 positions; for each of 252 elements of the stretch


def test_loads_of_wide_bands_take_no_longer_than_their_bytes():
    graph = depthwise(16, 1, (120, 160), (3, 3), (1, 1), (F16, F16))
    tiles = lower(legalise(graph, LPU), LPU)[0].tiles
    loads = [t for t in tiles if t.unit[0] == "weights"]
    assert loads
    for tile in loads:
        i = tile.instruction
        assert tile.beats == -(-i.count1 * i.count2 * F16.size // LPU.weights.bytes_per_cycle)
    check_program(graph, "lpu", [feeds(graph, 2)])
