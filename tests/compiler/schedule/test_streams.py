"""Layers behind a link follow the image row by row as long as planes would wait for the link anyway."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.passes import optimise, shape_for_units
from compiler.schedule import layout
from compiler.schedule.legalise import legalise

LPU = targets.load("lpu")
FAST = replace(LPU, link_in=replace(LPU.link_in, bytes_per_cycle=1 << 20))


@pytest.fixture(scope="module")
def graph():
    """An image, a layer that makes it small, and two layers of few filters."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (64, 3, 8, 8), "w1": (16, 64, 1, 1), "w2": (64, 16, 3, 3)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="first", strides=[8, 8]),
        helper.make_node("Conv", ["a", "w1"], ["b"], name="second"),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="third", pads=[1, 1, 1, 1]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 216, 216])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 27, 27])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.checker.check_model(model)
    return shape_for_units(optimise(compiler.load(model.SerializeToString())))


def filters_stay(graph, target):
    """By contraction, in the graph's order, whether its constant is what the planes hold."""
    legal = legalise(graph, target)
    sides = layout.assign(legal, target).sides
    return [n.operands[sides[n.output].stationary].value in legal.constants for n in legal.nodes if n.output in sides]


def test_filters_stay_where_the_image_comes_in_slowly(graph):
    assert filters_stay(graph, LPU)[1]
    assert not filters_stay(graph, FAST)[1]
