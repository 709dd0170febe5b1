"""Storage orders: chosen for readers behind views, and so that what is woven together need not be copied again."""

from collections import Counter

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.passes import optimise, shape_for_units
from compiler.passes.legalise import legalise
from compiler.tiling.lower import lower

LPU = targets.load("lpu")
LANES = 320


def beats_of(nodes, shapes, result, constants):
    """Beats by unit and source operation."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.checker.check_model(model)
    graph = shape_for_units(optimise(compiler.load(model.SerializeToString())))
    tiler, names, _ = lower(legalise(graph, LPU), LPU)
    found = Counter()
    for tile in tiler.tiles:
        found[tile.unit[0], names[tile.instruction.source].split("/")[0]] += tile.beats
    return found


def test_a_transposed_convolution_weaves_its_phases_without_a_second_copy():
    channels, side = 24, 40
    weights = np.ones((channels, channels, 2, 2), np.float32)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["up"], name="up", strides=[2, 2]),
        helper.make_node("Relu", ["up"], ["y"], name="relu"),
    ]
    shapes = {"x": [1, channels, side, side]}
    found = beats_of(nodes, shapes, [1, channels, 2 * side, 2 * side], {"w": weights})
    copies = sum(n for (unit, _), n in found.items() if unit == "move")
    elements = channels * 4 * side * side
    assert copies < elements // 16  # three joins of pixels, no element by itself


def test_a_sum_is_stored_as_both_of_its_terms_are():
    size = 48
    rng = np.random.default_rng(0)
    wide = {f"w{i}": rng.standard_normal((16, 16, 1, 1)).astype(np.float32) for i in range(3)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Conv", ["a", "w1"], ["b"], name="second"),
        helper.make_node("Sigmoid", ["a"], ["s"], name="other"),
        helper.make_node("Conv", ["s", "w2"], ["c"], name="third"),
        helper.make_node("Mul", ["b", "c"], ["bc"], name="product"),
        helper.make_node("Max", ["bc", "a"], ["y"], name="larger"),
    ]
    found = beats_of(nodes, {"x": [1, 16, size, size]}, [1, 16, size, size], wide)
    least = 16 * size * size // LANES
    assert (
        sum(n for (unit, name), n in found.items() if unit == "vector" and name in ("larger", "product")) <= 3 * least
    )
