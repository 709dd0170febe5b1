"""Filters held in the planes as bands: exact, billed as the graph says, few products of many rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from compiler.reporting import per_operation
from compiler.simulator import SimulationError, simulate
from compiler.tiling import toeplitz
from compiler.tiling.loop_nests import plain
from tests.compiler.checks import check_program
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.lanes import Lanes
from tests.compiler.tiling.test_narrow import feeds, values
from tests.compiler.tiling.test_shared_passes import widened
from tests.tiers import some

I8, F16, F32 = DType.I8, DType.F16, DType.F32
KINDS = [(DType.U8, I8), (F16, F16), (F32, F32)]


def depthwise(channels, per, size, window, stride, kinds):
    """A padded convolution of ``per`` filters for every channel."""
    kind, weights = kinds
    (h, w), (p, q), (s, t) = size, window, stride
    b = Builder("depthwise")
    x = b.input("x", TensorType(kind, (channels, h, w)))
    f = b.constant(values(TensorType(weights, (channels, per, p, q)), 3))
    image = ((1, 0, 0, 0, 0, 0), (0, 0, s, 0, 1, 0), (0, 0, 0, t, 0, 1))
    taps = ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1))
    high, wide = ((n + 2 * (k // 2) - k) // d + 1 for n, k, d in zip(size, window, stride, strict=True))
    operands = [Operand(x, Access((0, -(p // 2), -(q // 2)), image), 0), Operand(f, Access((0, 0, 0, 0), taps))]
    b.source = ("depthwise",)
    loops = (channels, per, high, wide, p, q)
    return b.finish({"y": b.compute(loops, operands, widened(*kinds), parallel=4, reducer="sum")}, {}, {})


def only_bands(patch):
    """Bands wherever there are any."""
    patch.setattr("compiler.tiling.lower._price", lambda ways: -sum(f.band for f, _ in ways))
    patch.setattr("compiler.tiling.vector.quicker", lambda *_: False)


@settings(max_examples=some(12), deadline=None)
@given(
    st.integers(2, 9),
    st.integers(1, 2),
    st.tuples(st.integers(2, 12), st.integers(2, 40)),
    st.tuples(st.integers(1, 3), st.integers(2, 5)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from(KINDS),
    st.sampled_from(["lpu", "lpu2"]),
)
def test_bands_are_exact_and_billed_as_the_graph_says(channels, per, size, window, stride, kinds, target):
    graph = depthwise(channels, per, size, window, stride, kinds)
    with pytest.MonkeyPatch.context() as patch:
        only_bands(patch)
        _, binary = check_program(graph, target, [feeds(graph, 1)])
    rows = per_operation(binary, targets.load(binary.target))
    assert sum(row["operations"] for row in rows) == sum(node.operations for node in graph.nodes)


@pytest.mark.parametrize("kinds", KINDS)
def test_a_lane_at_a_time_gives_the_same_bits_and_no_rule_is_broken(kinds, monkeypatch):
    graph = depthwise(3, 1, (4, 6), (3, 3), (1, 2), kinds)
    only_bands(monkeypatch)
    feed = feeds(graph, 4)
    if kinds[0].is_float:  # what an infinite element meets where a cell is off is nothing, not infinity times 0
        feed["x"][1, 2, 3] = np.inf
    _, binary = check_program(graph, "lpu", [feed])
    assert any(i.offset for i in binary.rows if i.opcode == Op.MATMUL)
    target = targets.load("lpu")
    got = simulate(binary.to_bytes(), feed)[0]["y"]
    slow = Lanes(binary, target.weights.latency).run({"x": feed["x"].tobytes()})["y"]
    np.testing.assert_array_equal(np.frombuffer(slow, got.dtype).reshape(got.shape), got)
    assert Oracle(binary, target).violations(inferences=2) == []


def test_a_large_depthwise_layer_has_few_products_of_many_rows():
    graph = depthwise(16, 1, (120, 160), (3, 3), (1, 1), (F16, F16))
    _, binary = check_program(graph, "lpu", [feeds(graph, 2)])
    products = [i for i in binary.rows if i.opcode == Op.MATMUL]
    assert len(products) < 200
    assert all(i.offset for i in products)


def test_cells_that_the_product_counts_otherwise_are_refused(monkeypatch):
    only_bands(monkeypatch)
    graph = depthwise(2, 1, (4, 8), (3, 3), (1, 1), (F32, F32))
    feed = feeds(graph, 4)
    _, binary = check_program(graph, "lpu", [feed])
    for op, said in ((Op.LOADW, "cells of slot"), (Op.MATMUL, "cells on, the product needs")):
        records = binary.instructions.copy()
        at = np.flatnonzero((records["opcode"] == op) & (records["offset"] > 0))[0]
        records["offset"][at] -= 1
        with pytest.raises(SimulationError, match=said):
            simulate(replace(binary, instructions=records).to_bytes(), feed)


def test_a_loop_that_steps_over_its_window_does_not_slide():
    graph = depthwise(4, 1, (9, 9), (3, 2), (3, 1), (F32, F32))
    found = toeplitz.slides(graph.nodes[0], 1, graph)
    assert [(s.along, s.over, s.step) for s in found] == [(3, 5, 1)]


def test_every_position_keeps_its_taps():
    graph = depthwise(2, 1, (8, 9), (3, 3), (2, 1), (F32, F32))
    node = graph.nodes[0]
    found = toeplitz.slides(node, 1, graph)
    walk = toeplitz.banded(node, 1, tuple(zip(found, (2, 3), strict=True)))
    assert walk.node.points == plain(node).node.points
    rows, columns = (walk.node.loops[i] for i in (7, 6))
    assert (rows, columns) == (3 + 2, 3 + 2)
