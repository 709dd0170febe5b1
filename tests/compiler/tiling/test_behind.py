"""What needs a whole image follows nothing, and joins lie as the largest of their parts does."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.passes import optimise, shape_for_units
from compiler.passes.legalise import legalise
from compiler.precision import prepare
from compiler.tiling import layout
from compiler.tiling.input_overlap import InputOverlap
from compiler.tiling.lower import lower

LPU = targets.load("lpu")
RNG = np.random.default_rng(0)


def loaded(nodes, shapes, came, went, precision="float32"):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", came), ("y", went)))
    weights = [numpy_helper.from_array(RNG.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.checker.check_model(model)
    return shape_for_units(prepare(optimise(compiler.load(model.SerializeToString())), precision, None)[0])


def test_a_layer_behind_a_gate_does_not_follow_the_image():
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], strides=[4, 4]),
        helper.make_node("GlobalAveragePool", ["a"], ["m"]),
        helper.make_node("Conv", ["m", "w1"], ["n"]),
        helper.make_node("Mul", ["a", "n"], ["g"]),
        helper.make_node("Conv", ["g", "w2"], ["y"]),
    ]
    shapes = {"w0": (16, 3, 4, 4), "w1": (16, 16, 1, 1), "w2": (8, 16, 1, 1)}
    graph = legalise(loaded(nodes, shapes, [1, 3, 256, 256], [1, 8, 64, 64]), LPU)
    stream = InputOverlap(graph, LPU)
    first, last = (next(n for n in graph.nodes if n.output == name) for name in ("a", "y"))
    assert stream.spare > 0
    assert not stream.follows(last, 0, 0)
    assert stream.follows(first, 0, 0)


def test_a_join_lies_as_its_largest_part():
    """A small map made larger, beside a large one: the small one is turned, the large one is where planes want it."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["small"], strides=[4, 4]),
        helper.make_node(
            "Resize",
            ["small", "", "scales"],
            ["large"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        helper.make_node("Conv", ["x", "w1"], ["beside"]),
        helper.make_node("Concat", ["large", "beside"], ["both"], axis=1),
        helper.make_node("Conv", ["both", "w2"], ["y"], pads=[1, 1, 1, 1]),
    ]
    shapes = {"w0": (8, 4, 4, 4), "w1": (8, 4, 1, 1), "w2": (8, 16, 3, 3)}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 80, 80]) for n, c in (("x", 4), ("y", 8)))
    weights = [numpy_helper.from_array(RNG.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    weights.append(numpy_helper.from_array(np.float32([1, 1, 4, 4]), "scales"))
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    graph = legalise(shape_for_units(optimise(compiler.load(model.SerializeToString()))), LPU)
    found = layout.assign(graph, LPU)
    assert found.joined.get("beside") == "both"
    assert found.orders["both"] == found.dataflows["beside"].order
    lower(graph, LPU)


def test_bands_follow_an_image_in_stretches_of_its_rows_unless_the_interval_is_all_that_counts():
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Conv", ["a", "w1"], ["b"], pads=[1, 1, 1, 1], group=48),
        helper.make_node("Conv", ["b", "w2"], ["y"]),
    ]
    shapes = {"w0": (48, 8, 1, 1), "w1": (48, 1, 3, 3), "w2": (4, 48, 1, 1)}
    graph = loaded(nodes, shapes, [1, 8, 120, 160], [1, 4, 120, 160], "float16")
    legal = legalise(graph, LPU)
    loads = []
    for following in (True, False):
        tiler = lower(legal, LPU, following=following)[0]
        loads.append(sum(tile.unit[0] == "weights" for tile in tiler.tiles))
    assert loads[0] > loads[1]


def test_what_is_added_to_a_larger_image_lies_as_that_does():
    """The order of one layer is known when that of the other is chosen, although what is added has no place yet."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["small"], strides=[2, 2]),
        helper.make_node("Relu", ["small"], ["s"]),
        helper.make_node("Conv", ["x", "w1"], ["large"]),
        helper.make_node(
            "Resize",
            ["s", "", "scales"],
            ["up"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        helper.make_node("Add", ["up", "large"], ["y"]),
    ]
    shapes = {"w0": (24, 4, 2, 2), "w1": (24, 4, 1, 1)}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 80, 80]) for n, c in (("x", 4), ("y", 24)))
    weights = [numpy_helper.from_array(RNG.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    weights.append(numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales"))
    made = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    graph = legalise(shape_for_units(optimise(compiler.load(model.SerializeToString()))), LPU)
    dataflows = layout.assign(graph, LPU).dataflows
    orders = {tuple(i for i in side.order if i) for side in dataflows.values()}
    assert len(orders) == 1
