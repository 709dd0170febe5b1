"""Columns in parts: what one product leaves empty of a plane is filled, every product is made once, and no bit changes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.costs.contraction import Roles, roles
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from compiler.reporting import per_operation
from compiler.tiling import loop_nests
from compiler.tiling.stationary import DataflowSelector, stacked
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_bands import depthwise
from tests.compiler.tiling.test_narrow import feeds, values
from tests.compiler.tiling.test_shared_passes import widened
from tests.tiers import some

F16, F32 = DType.F16, DType.F32
KINDS = [(DType.U8, DType.I8), (F16, F16), (F32, F32)]
LPU = targets.load("lpu")


def pointwise(filters, channels, size, kinds):
    """A 1x1 convolution."""
    kind, weights = kinds
    h, w = size
    b = Builder("pointwise")
    x = b.input("x", TensorType(kind, (channels, h, w)))
    f = b.constant(values(TensorType(weights, (filters, channels)), 5))
    operands = [
        Operand(x, Access((0, 0, 0), ((0, 0, 0, 1), (0, 1, 0, 0), (0, 0, 1, 0)))),
        Operand(f, Access((0, 0), ((1, 0, 0, 0), (0, 0, 0, 1)))),
    ]
    b.source = ("pointwise",)
    return b.finish(
        {"y": b.compute((filters, h, w, channels), operands, widened(*kinds), parallel=3, reducer="sum")}, {}, {}
    )


def only(patch, found):
    """The walks in question wherever there are any, with the image in the planes."""
    real = getattr(loop_nests, found)
    made = []

    def kept(node, stationary, machine):
        made.extend(real(node, 0, machine))
        return real(node, 0, machine)

    patch.setattr(loop_nests, found, kept)
    patch.setattr("compiler.tiling.lower._price", lambda ways: -max(f.node.parallel for f, _ in ways))
    patch.setattr("compiler.tiling.lower._packed_rows", lambda *_: [])
    patch.setattr("compiler.tiling.lower._relaid_home", lambda *_: None)
    patch.setattr("compiler.tiling.toeplitz.bands", lambda *_: [])
    patch.setattr("compiler.tiling.vector.cycles", lambda *_: None)
    return made


def exact(graph, found):
    with pytest.MonkeyPatch.context() as patch:
        made = only(patch, found)
        _, binary = check_program(graph, "lpu", [feeds(graph, 1)])
    rows = per_operation(binary, targets.load(binary.target))
    assert sum(row["operations"] for row in rows) == sum(node.operations for node in graph.nodes)
    blocks = any(i.blocks for i in binary.rows if i.opcode == Op.MATMUL)
    assert blocks or not made


@settings(max_examples=some(8), deadline=None)
@given(st.integers(2, 9), st.tuples(st.integers(1, 3), st.integers(30, 140)), st.integers(2, 5), st.sampled_from(KINDS))
def test_parts_of_a_depthwise_layer_are_exact(channels, size, taps, kinds):
    exact(depthwise(channels, 1, size, (1, taps), (1, 1), kinds), "packed_columns")


@settings(max_examples=some(8), deadline=None)
@given(
    st.integers(2, 40), st.integers(1, 40), st.tuples(st.integers(1, 3), st.integers(90, 200)), st.sampled_from(KINDS)
)
def test_columns_that_are_left_over_are_exact(filters, channels, size, kinds):
    exact(pointwise(filters, channels, size, kinds), "packed_remainder")


def test_quarters_of_three_channels_share_a_pass():
    graph = depthwise(12, 1, (2, 96), (1, 5), (1, 1), (F16, F16))
    (walk,) = loop_nests.packed_columns(graph.nodes[0], 0, LPU)
    assert (walk.node.loops[walk.block], walk.node.loops[walk.apart]) == (3, 4)


def test_what_is_left_over_is_an_eighth_of_the_passes():
    first, rest = loop_nests.packed_remainder(
        loop_nests.plain(pointwise(200, 32, (2, 96), (F16, F16)).nodes[0]), 0, LPU.matrix.tiles["f16"]
    )
    assert first.node.points == 200 * 160
    assert (rest.node.points, rest.node.loops[rest.block]) == (200 * 32, 5)
    assert (
        loop_nests.packed_remainder(
            loop_nests.plain(pointwise(200, 32, (2, 80), (F16, F16)).nodes[0]), 0, LPU.matrix.tiles["f16"]
        )
        == []
    )


def test_rows_that_meet_in_lines_are_dealt_over_the_planes(monkeypatch):
    """64 filters pass 27 pixels: the results of neighbours meet in a line, which no longer keeps all of them on one plane."""
    monkeypatch.setattr(
        DataflowSelector, "_sides", lambda self, node: [self._side(node, roles(node, 0), rows_inside=False)]
    )
    monkeypatch.setattr("compiler.tiling.vector.cycles", lambda *_: None)
    graph = pointwise(64, 64, (3, 9), (DType.U8, DType.I8))
    _, binary = check_program(graph, "lpu", [feeds(graph, 1)])
    products = [i for i in binary.rows if i.opcode == Op.MATMUL]
    assert [i.count1 for i in products] == [16] * LPU.matrix.instances
    assert len({i.unit for i in products}) > 1


def test_rows_are_stacked_where_a_row_ends_before_the_next_begins():
    filters_over_pixels = Roles(0, [], [0], [1, 2], [3])
    assert stacked([27, 9, 1, 0], (64, 3, 9, 64), filters_over_pixels, 1)
    assert not stacked([1, 576, 64, 0], (64, 3, 9, 64), filters_over_pixels, 1)
