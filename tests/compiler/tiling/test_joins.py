"""Images made larger are written into the join that they are parts of, first the rows that readers take first."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.ir.interpreter import run
from compiler.isa.instruction import Op
from compiler.passes import optimise, shape_for_units
from compiler.passes.legalise import legalise
from compiler.tiling import layout
from compiler.tiling.lower import lower
from compiler.tiling.uses import needed_whole
from tests.compiler.checks import check_program

LPU = targets.load("lpu")


def pyramid(size, times):
    """A small image made larger, beside a large one, then windows over both."""
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["small"], strides=[times, times]),
        helper.make_node(
            "Resize",
            ["small", "", "scales"],
            ["grown"],
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        helper.make_node("Conv", ["x", "w1"], ["beside"]),
        helper.make_node("Concat", ["grown", "beside"], ["both"], axis=1),
        helper.make_node("Conv", ["both", "w2"], ["y"], pads=[1, 1, 1, 1]),
    ]
    rng = np.random.default_rng(0)
    shapes = {"w0": (8, 4, times, times), "w1": (8, 4, 1, 1), "w2": (8, 16, 3, 3)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    weights.append(numpy_helper.from_array(np.float32([1, 1, times, times]), "scales"))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, *size]) for n, c in (("x", 4), ("y", 8)))
    made = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    return shape_for_units(optimise(compiler.load(model.SerializeToString())))


@pytest.mark.parametrize(("size", "times"), [((80, 80), 4), ((12, 20), 2), ((6, 9), 3)])
def test_a_larger_image_is_copied_once_into_its_join(size, times):
    graph = pyramid(size, times)
    legal = legalise(graph, LPU)
    home = next(n for n in legal.nodes if n.name.startswith("Concat") or n.output == "both")
    tiler = lower(legal, LPU)[0]
    moved = [t for t in tiler.tiles if t.instruction.opcode == Op.MOVE and not t.output.startswith("x")]
    assert {t.output for t in moved} == {home.parts[0]}
    assert sum(t.instruction.count1 * t.instruction.count2 for t in moved) == 8 * size[0] * size[1]
    feed = {"x": np.random.default_rng(1).standard_normal((1, 4, *size)).astype(np.float32)}
    check_program(graph, "lpu", [feed])
    assert run(graph, feed)["y"].shape == (1, 8, *size)


def test_parts_of_a_join_are_walked_as_its_readers_need_them():
    legal = legalise(pyramid((80, 80), 4), LPU)
    places = layout.assign(legal, LPU)
    parts = next(n.parts for n in legal.nodes if n.output == "both")
    assert all(1 in places.needed_whole[part] for part in parts)


def test_an_image_is_pooled_along_the_dimension_that_is_not_soon_needed_whole():
    """Grouped filters take some channels of a pooled image, those behind them all: rows can be followed, channels cannot."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (8, 3, 3, 3), "w1": (16, 4, 1, 1), "w2": (16, 1, 3, 3), "w3": (8, 16, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w1"], ["c"], group=2),
        helper.make_node("Conv", ["c", "w2"], ["d"], group=16, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["d", "w3"], ["y"]),
    ]
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [1, 3, 64, 64]), ("y", [1, 8, 32, 32]))
    )
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    graph = shape_for_units(optimise(compiler.load(model.SerializeToString())))
    needed = needed_whole(graph)
    pooled = [n.output for n in graph.nodes if n.name.startswith("MaxPool") or n.output == "b"]
    assert pooled
    assert all(needed[value] == {1} for value in pooled)
