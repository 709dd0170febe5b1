"""Pixels as one loop: cut anywhere, the same values, and only where they lie one behind the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.access import Access
from compiler.isa.instruction import Op
from compiler.tiling import loop_nests
from compiler.tiling.loop_collapsing import collapsed
from compiler.tiling.place import Place, ordered_strides
from compiler.tiling.stationary import DataflowSelector
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import feeds
from tests.compiler.tiling.test_parted import F16, KINDS, only, pointwise
from tests.tiers import some


def placed(graph, order, pitch=None):
    """Places of a pointwise product's values, images in the order of the given dimensions."""
    node = graph.nodes[0]
    found = {}
    for value in (*(o.value for o in node.operands), node.output):
        kind = graph.types[value]
        shape = kind.shape
        kept = order if len(shape) == 3 else (0, 1)
        strides = ordered_strides(shape, kept, kind.dtype.size, pitch if len(shape) == 3 else None)
        found[value] = Place(value, kind.dtype, shape, 0, strides)
    return node, found


@pytest.mark.parametrize(("order", "pitch"), [((0, 1, 2), None), ((0, 1, 2), (2, 320)), ((1, 2, 0), None)])
def test_pixels_that_lie_one_behind_the_other_are_one_loop(order, pitch):
    node, places = placed(pointwise(200, 32, (28, 28), (F16, F16)), order, pitch)
    walk = collapsed(node, [1, 2], places)
    assert walk is not None
    assert (walk.node.loops, walk.node.parallel) == ((200, 784, 32), 2)
    assert walk.places[0].shape == (32, 784)
    assert walk.out == Access.identity(2, 3)
    first, rest = loop_nests.packed_remainder(walk, 0, (64, 320))
    assert (first.node.points, rest.node.points) == (200 * 640, 200 * 144)


def test_rows_with_gaps_between_them_stay_apart():
    node, places = placed(pointwise(200, 32, (28, 28), (F16, F16)), (0, 1, 2), (1, 320))
    assert collapsed(node, [1, 2], places) is None
    assert collapsed(node, [1], places) is None  # a single loop is flat as it is


def image_stays(patch):
    """The image in the planes, whatever that costs."""
    real = DataflowSelector._sides
    patch.setattr(DataflowSelector, "_sides", lambda self, node: [s for s in real(self, node) if s.stationary == 0])


@settings(max_examples=some(8), deadline=None)
@given(
    st.integers(2, 40), st.integers(1, 40), st.tuples(st.integers(2, 30), st.integers(11, 40)), st.sampled_from(KINDS)
)
def test_columns_cut_within_a_row_are_exact(filters, channels, size, kinds):
    graph = pointwise(filters, channels, size, kinds)
    with pytest.MonkeyPatch.context() as patch:
        only(patch, "packed_remainder")
        image_stays(patch)
        real = loop_nests.packed_remainder
        patch.setattr(loop_nests, "packed_remainder", lambda walk, *rest: real(walk, *rest) if walk.places else [])
        check_program(graph, "lpu", [feeds(graph, 1)])


def test_a_plane_is_filled_across_rows():
    """Two planes of 320 of 784 pixels; of the 144 left over two rows of weights share a pass."""
    graph = pointwise(512, 128, (28, 28), KINDS[0])
    with pytest.MonkeyPatch.context() as patch:
        image_stays(patch)
        _, binary = check_program(graph, "lpu", [feeds(graph, 1)])
    products = [i for i in binary.rows if i.opcode == Op.MATMUL]
    assert sum(i.count1 for i in products if i.blocks) == 256
    assert sum(i.count1 for i in products) == 2 * 512 + 256


@pytest.mark.parametrize(
    ("equation", "weights", "rows", "target", "precision"),
    [
        ("kfd,td->kft", (2, 17, 32), (11, 32), "edge", "int8"),
        ("kfd,td->kft", (2, 130, 16), (9, 16), "systolic", "int8"),
        ("kfd,td->tkf", (5, 70, 48), (33, 48), "lpu", "float32"),
        ("kfd,td->tkf", (5, 70, 48), (33, 48), "lpu", "float16"),
    ],
)
def test_constant_weights_of_two_dimensions_of_columns_may_be_one_loop(equation, weights, rows, target, precision):
    """What heads of attention project by: their left-over columns have a form of their own, over both dimensions as one."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal(weights).astype(np.float32), rng.standard_normal(rows).astype(np.float32)
    info = helper.make_tensor_value_info
    node = helper.make_node("Einsum", ["w", "x"], ["y"], equation=equation)
    inputs, outputs = [info("x", TensorProto.FLOAT, rows)], [info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(w, "w")])
    loaded = compiler.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    ranges = None if precision == "float32" else compiler.calibrate(loaded, [{"x": x}], precision)
    program = compiler.compile(loaded, target, precision, ranges)
    found, counters = compiler.simulate(program.to_bytes(), {"x": x})
    expected = np.einsum(equation, w, x)
    assert counters == program.resources
    assert np.abs(found["y"] - expected).max() < 0.03 * np.abs(expected).max()
