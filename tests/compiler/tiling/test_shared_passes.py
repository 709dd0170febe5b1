"""Several small products in one pass, and either factor in the plane: exact, and billed as the graph says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from compiler.reporting import per_operation
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import feeds, values
from tests.tiers import some

F32 = DType.F32
KINDS = [(DType.U8, DType.I8), (DType.F16, DType.F16), (F32, F32)]


def widened(a, b):
    return arg(0, a).widen("mul", arg(1, b), F32 if a.is_float else DType.I32)


def grouped(groups, per, out, side, kind, weights):
    """A padded 3x3 convolution in groups: ``per`` channels in, ``out`` out in each."""
    b = Builder("grouped")
    x = b.input("x", TensorType(kind, (groups, per, side, side)))
    w = b.constant(values(TensorType(weights, (groups, out, per, 3, 3)), 3))
    reads = ((1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 1), (0, 0, 1, 0, 1, 0, 0), (0, 0, 0, 1, 0, 1, 0))
    taps = ((1, *(0,) * 6), (0, 1, *(0,) * 5), (*(0,) * 6, 1), (*(0,) * 4, 1, 0, 0), (*(0,) * 5, 1, 0))
    operands = [
        Operand(x, Access((0, 0, -1, -1), reads), 0.0 if kind.is_float else 0),
        Operand(w, Access((0,) * 5, taps)),
    ]
    b.source = ("grouped",)
    loops = (groups, out, side, side, 3, 3, per)
    y = b.compute(loops, operands, widened(kind, weights), parallel=4, reducer="sum")
    return b.finish({"y": y}, {}, {})


def heads(count, rows, columns, depth):
    """Queries times keys, head by head, both computed at run time."""
    b = Builder("heads")
    q, k = (b.input(n, TensorType(F32, (r, count, depth))) for n, r in (("q", rows), ("k", columns)))
    left = Access((0, 0, 0), ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1)))
    right = Access((0, 0, 0), ((0, 0, 1, 0), (1, 0, 0, 0), (0, 0, 0, 1)))
    b.source = ("heads",)
    operands = [Operand(q, left), Operand(k, right)]
    y = b.compute((count, rows, columns, depth), operands, widened(F32, F32), parallel=3, reducer="sum")
    return b.finish({"y": y}, {}, {})


def dense(rows, depth, columns, kinds, high=1):
    """An image times a constant, channels last."""
    kind, weights = kinds
    b = Builder("dense")
    x = b.input("x", TensorType(kind, (high, rows, depth)))
    w = b.constant(values(TensorType(weights, (depth, columns)), 3))
    b.source = ("dense",)
    left = Access((0, 0, 0), ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)))
    operands = [Operand(x, left), Operand(w, Access((0, 0), ((0, 0, 0, 1), (0, 0, 1, 0))))]
    y = b.compute((high, rows, columns, depth), operands, widened(*kinds), parallel=3, reducer="sum")
    return b.finish({"y": y}, {}, {})


def blocks_of(binary):
    return [i.blocks for i in binary.rows if i.opcode == Op.MATMUL and i.blocks]


@settings(max_examples=some(12), deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 9),
    st.sampled_from([(DType.U8, DType.I8), (DType.F16, DType.F16), (F32, F32)]),
    st.sampled_from(["lpu", "lpu2"]),
)
def test_a_convolution_in_groups_is_exact_and_billed_as_the_graph_says(groups, per, out, side, kinds, target):
    graph = grouped(groups, per, out, side, *kinds)
    _, binary = check_program(graph, target, [feeds(graph, 1)])
    assert sum(row["operations"] for row in _rows(binary)) == sum(node.operations for node in graph.nodes)


def _rows(binary):
    from compiler.reporting import per_operation

    return per_operation(binary, targets.load(binary.target))


@pytest.mark.parametrize("kinds", [(DType.U8, DType.I8), (F32, F32)])
def test_a_large_depthwise_layer_runs_on_the_planes(kinds):
    graph = grouped(64, 1, 1, 24, *kinds)
    _, binary = check_program(graph, "lpu", [feeds(graph, 2)])
    assert not any(i.opcode == Op.VECTOR for i in binary.rows)


def test_small_heads_share_passes():
    graph = heads(10, 12, 12, 16)
    _, binary = check_program(graph, "lpu", [feeds(graph, 2)])
    assert blocks_of(binary)
    assert sum(i.opcode == Op.MATMUL for i in binary.rows) < 10


@settings(max_examples=some(8), deadline=None)
@given(st.integers(1, 12), st.integers(1, 70), st.integers(1, 70), st.integers(1, 40))
def test_heads_of_two_run_time_factors_are_exact(count, rows, columns, depth):
    graph = heads(count, rows, columns, depth)
    check_program(graph, "lpu", [feeds(graph, 4)])


def test_few_filters_stream_past_a_large_image():
    """The image is loaded into the planes: fewer product rows than the image has pixels."""
    b = Builder("filters")
    x = b.input("x", TensorType(DType.U8, (64, 2560)))
    w = b.constant(values(TensorType(DType.I8, (16, 64)), 1))
    b.source = ("filters",)
    operands = [Operand(x, Access((0, 0), ((0, 0, 1), (0, 1, 0)))), Operand(w, Access((0, 0), ((1, 0, 0), (0, 0, 1))))]
    y = b.compute((16, 2560, 64), operands, widened(DType.U8, DType.I8), parallel=2, reducer="sum")
    graph = b.finish({"y": y}, {}, {})
    _, binary = check_program(graph, "lpu", [feeds(graph, 5)])
    assert sum(i.count1 for i in binary.rows if i.opcode == Op.MATMUL) < 2560 // 4


def test_an_infinite_value_stays_in_its_own_group():
    graph = grouped(48, 1, 1, 20, F32, F32)
    feed = feeds(graph, 6)
    feed["x"][0] = np.inf
    check_program(graph, "lpu", [feed])


@settings(max_examples=some(12), deadline=None)
@given(
    st.integers(2, 40),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from(KINDS),
    st.sampled_from(["lpu", "lpu2"]),
    st.integers(1, 3),
)
def test_neighbouring_rows_by_the_same_weights_are_exact(rows, depth, columns, kinds, target, high):
    graph = dense(rows, depth, columns, kinds, high)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compiler.tiling.lower._price", lambda ways: -sum(f.shared >= 0 for f, _ in ways))
        _, binary = check_program(graph, target, [feeds(graph, 1)])
    counted = per_operation(binary, targets.load(binary.target))
    assert sum(row["operations"] for row in counted) == sum(node.operations for node in graph.nodes)


def test_weights_that_several_blocks_share_are_stored_once():
    graph = dense(96, 16, 40, (DType.U8, DType.I8), 3)
    _, binary = check_program(graph, "lpu", [feeds(graph, 3)])
    products = [i for i in binary.rows if i.opcode == Op.MATMUL]
    assert {i.blocks for i in products} == {8}
    assert sum(i.count1 * i.blocks for i in products) == 96 * 3
    assert binary.memory.constants <= 3 * 320


def test_columns_left_over_are_dealt_over_all_planes():
    graph = dense(16, 40, 5 * 320, (DType.I8, DType.I8))  # five tiles of columns, four planes
    _, binary = check_program(graph, "lpu", [feeds(graph, 1)], objective="latency")
    rows = sorted(i.count1 for i in binary.rows if i.opcode == Op.MATMUL)
    assert rows == [4] * 4 + [16] * 4
