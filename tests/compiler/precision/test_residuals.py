"""A residual that only what follows a product reads is kept in float16, so that the product keeps its pace."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.costs.cycles import alu_passes
from compiler.ir.types import DType
from compiler.passes import optimise, shape_for_units
from compiler.precision.convert import convert
from compiler.precision.plan import HALF_LIMIT
from compiler.precision.prepare import calibrated

LPU = targets.load("lpu")
CHANNELS, SIDE = 32, 24


def network(gain):
    """A shortcut of its own weights beside a layer; ``gain``: of the shortcut."""
    rng = np.random.default_rng(5)
    scale = {"w1": 1.0, "w2": 1.0, "w3": gain, "w4": 1.0 / gain}
    weights = [
        numpy_helper.from_array(
            (rng.standard_normal((CHANNELS, CHANNELS, 1, 1)) * scale[n] / CHANNELS**0.5).astype(np.float32), n
        )
        for n in scale
    ]
    weights.append(numpy_helper.from_array(rng.standard_normal(CHANNELS).astype(np.float32), "bias"))
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2", "bias"], ["long"]),
        helper.make_node("Conv", ["r", "w3", "bias"], ["short"]),
        helper.make_node("Add", ["long", "short"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["s"]),
        helper.make_node("Conv", ["s", "w4"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, CHANNELS, SIDE, SIDE]) for n in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports[:1], ports[1:], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    graph = optimise(compiler.load(model.SerializeToString()))
    feeds = [{"x": rng.standard_normal((1, CHANNELS, SIDE, SIDE)).astype(np.float32)} for _ in range(2)]
    calibration = calibrated(graph, feeds, "int8")
    return convert(graph, "int8", calibration).graph, calibration


def joined(graph):
    """The contractions that read something made at run time behind their sums, and its type."""
    return [
        (n, graph.types[o.value].dtype)
        for n in graph.nodes
        if getattr(n, "is_contraction", False)
        for o in n.operands[2:]
        if o.value not in graph.constants
    ]


def test_a_residual_behind_a_product_is_kept_in_float16_at_no_cost_of_cycles():
    graph, calibration = network(1.0)
    [(node, dtype)] = joined(shape_for_units(graph))
    assert dtype == DType.F16
    assert calibration.errors["int8"]["y"]["snr_db"] > 25.0
    assert alu_passes(node.post, LPU) <= LPU.matrix.alus


def test_a_residual_beyond_float16_stays_as_it_is():
    graph, calibration = network(HALF_LIMIT)
    assert [dtype for _, dtype in joined(graph)] == [DType.F32]
    assert calibration.errors["int8"]["y"]["snr_db"] > 25.0
