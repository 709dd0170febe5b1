"""Layers behind a link follow the image row by row as long as planes would wait for the link anyway."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.passes import optimise, shape_for_units
from compiler.passes.legalise import legalise
from compiler.tiling import contraction, gemm, layout, loop_nests
from compiler.tiling.lower import lower

LPU = targets.load("lpu")
FAST = replace(LPU, link_in=replace(LPU.link_in, bytes_per_cycle=1 << 20))


def loaded(nodes, weights, came, went):
    """A model of one input of shape ``came`` and one output of shape ``went``, in the form that is scheduled."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", came), ("y", went)))
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.checker.check_model(model)
    return shape_for_units(optimise(compiler.load(model.SerializeToString())))


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
    return loaded(nodes, weights, [1, 3, 216, 216], [1, 64, 27, 27])


def filters_stay(graph, target):
    """By contraction, in the graph's order, whether its constant is what the planes hold."""
    legal = legalise(graph, target)
    dataflows = layout.assign(legal, target).dataflows
    return [
        n.operands[dataflows[n.output].stationary].value in legal.constants
        for n in legal.nodes
        if n.output in dataflows
    ]


def test_filters_stay_where_the_image_comes_in_slowly(graph):
    assert filters_stay(graph, LPU)[1]
    assert not filters_stay(graph, FAST)[1]


def test_each_stretch_of_rows_follows_its_own_by_weights_that_stay():
    b = Builder("product")
    x = b.input("x", TensorType(DType.I8, (128, 27, 27)))
    b.source = ("product",)
    w = b.constant(np.ones((32, 128), np.int8))
    factors = [
        Operand(x, Access((0,) * 3, ((0, 0, 0, 1), (0, 1, 0, 0), (0, 0, 1, 0)))),
        Operand(w, Access((0,) * 2, ((1, 0, 0, 0), (0, 0, 0, 1)))),
    ]
    product = arg(0, DType.I8).widen("mul", arg(1, DType.I8), DType.I32)
    narrow = arg(-1, DType.I32).cast(DType.I8)
    y = b.compute((32, 27, 27, 128), factors, product, parallel=3, reducer="sum", post=narrow)
    legal = legalise(b.finish({"y": y}, {}, {}), LPU)
    tiler = lower(legal, LPU)[0]
    f = gemm.gemm(replace(loop_nests.plain(legal.nodes[0]), stationary=1), tiler)
    assert {cut.run for cut in contraction._cuts(f, tiler, 32, 32)} == {1, 4}


def test_maps_are_cut_into_more_pieces_while_an_image_comes_in():
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    model = loaded([pool], [], [1, 64, 128, 128], [1, 64, 64, 64])
    slow, fast = (
        sum(tile.unit[0] == "vector" for tile in lower(legalise(model, target), target)[0].tiles)
        for target in (LPU, FAST)
    )
    assert fast <= 13 < 3 * fast < slow <= 50
