"""Gates go to the filters behind them: as many products as there are filters, and the same numbers but for rounding."""

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


def squeezed(channels, filters, size, group=1, gate="HardSigmoid", shown=False):
    """x times a gate computed from its means, before a 1x1 convolution."""
    rng = np.random.default_rng(channels)
    w = rng.standard_normal((filters, channels // group, 1, 1)).astype(np.float32)
    v = rng.standard_normal((channels, channels, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Conv", ["mean", "v"], ["z"]),
        helper.make_node(gate, ["z"], ["g"]),
        helper.make_node("Mul", ["g", "x"], ["weighed"]),
        helper.make_node("Conv", ["weighed", "w"], ["y"], group=group),
    ]
    kind = onnx.TensorProto.FLOAT
    outputs = [helper.make_tensor_value_info("y", kind, [1, filters, *size])]
    if shown:
        outputs.append(helper.make_tensor_value_info("weighed", kind, [1, channels, *size]))
    graph = helper.make_graph(
        nodes,
        "squeezed",
        [helper.make_tensor_value_info("x", kind, [1, channels, *size])],
        outputs,
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def products(graph):
    """Points of maps that multiply."""
    return [
        n.points
        for n in graph.nodes
        if isinstance(n, Compute) and not n.reducer and any(s.op == "mul" for s in n.expr.steps)
    ]


@settings(max_examples=some(40), deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 2), st.sampled_from(["HardSigmoid", "Sigmoid", "Relu"]))
def test_a_gate_before_filters_keeps_the_numbers(channels, filters, group, gate):
    model = squeezed(group * channels, group * filters, (6, 7), group, gate)
    graph = compiler.load(model)
    x = np.random.default_rng(3).standard_normal((1, group * channels, 6, 7)).astype(np.float32)
    before, after = run(graph, {"x": x})["y"], run(optimise(graph), {"x": x})["y"]
    assert np.abs(before - after).max() <= 1e-5 * max(1.0, np.abs(before).max())


def test_the_filters_are_weighed_in_place_of_the_image():
    graph = optimise(compiler.load(squeezed(8, 4, (9, 9))))
    assert products(graph) == [8 * 4]


@pytest.mark.parametrize(("filters", "size", "shown"), [(64, (9, 9), False), (4, (1, 3), False), (4, (9, 9), True)])
def test_the_image_is_weighed_where_that_is_shorter_or_wanted(filters, size, shown):
    graph = optimise(compiler.load(squeezed(8, filters, size, shown=shown)))
    assert products(graph) == [8 * size[0] * size[1]]
