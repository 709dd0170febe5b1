"""Windows longer than the image are sums over the image: no product is with padding, and no bit changes."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import compiler
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.passes import optimise
from tests.tiers import some


def filtered(size, taps, stride, pads, group, weights=None):
    rng = np.random.default_rng(1)
    w = rng.standard_normal((2 * group, 2, taps, 3)).astype(np.float32) if weights is None else weights
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=group, strides=[stride, 1], pads=[pads, 1, pads, 1])
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [node],
        "filtered",
        [helper.make_tensor_value_info("x", kind, [1, 2 * group, *size])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(w, "w")],
    )
    return compiler.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def reduction(graph):
    return next(n.loops[n.parallel :] for n in graph.nodes if isinstance(n, Compute) and n.is_contraction)


@settings(max_examples=some(60), deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 2), st.integers(0, 4), st.integers(1, 2))
def test_sums_over_short_images_keep_every_bit(height, taps, stride, pads, group):
    pads = min(pads, taps - 1)
    if height + 2 * pads < taps:
        pads = taps - 1
    graph = filtered((height, 4), taps, stride, pads, group)
    done = optimise(graph)
    x = np.random.default_rng(2).standard_normal((1, 2 * group, height, 4)).astype(np.float32)
    assert np.array_equal(run(graph, {"x": x})["y"], run(done, {"x": x})["y"])


@pytest.mark.parametrize(
    ("height", "taps", "pads", "rows"), [(3, 5, 2, 3), (2, 5, 2, 2), (1, 3, 1, 1), (5, 5, 2, 5), (3, 3, 1, 3)]
)
def test_only_products_with_the_image_are_left(height, taps, pads, rows):
    assert reduction(optimise(filtered((height, 4), taps, 1, pads, 2)))[0] == rows


def test_where_some_window_has_no_tap_for_a_row_it_slides_on():
    assert reduction(optimise(filtered((4, 4), 5, 1, 2, 1)))[0] == 5


def test_padding_times_infinity_stays():
    weights = np.full((2, 2, 5, 3), np.inf, np.float32)
    assert reduction(optimise(filtered((3, 4), 5, 1, 2, 1, weights)))[0] == 5
