"""Constant factors of an epilogue go into weights; results stay those of the model."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise

RNG = np.random.default_rng(11)
WEIGHTS = {
    "w": RNG.standard_normal((12, 20)).astype(np.float32),
    "b": RNG.standard_normal(20).astype(np.float32),
    "v": RNG.standard_normal((20, 6)).astype(np.float32),
    "root": np.float32(np.sqrt(2.0)),
    "one": np.float32(1.0),
    "half": np.float32(0.5),
    "slope": np.float32(1.702),
    "zero": np.float32(0.0),
    "three": np.float32(3.0),
    "six": np.float32(6.0),
    "shift": np.float32(-0.25),
}
node = helper.make_node
GELU = [
    node("Div", ["x1", "root"], ["z"]),
    node("Erf", ["z"], ["e"]),
    node("Add", ["e", "one"], ["e1"]),
    node("Mul", ["x1", "e1"], ["m"]),
    node("Mul", ["m", "half"], ["g"]),
]
HALF_FIRST = [
    *GELU[:3],
    node("Mul", ["x1", "half"], ["m"]),
    node("Mul", ["m", "e1"], ["g"]),
]
SIGMOID = [
    node("Mul", ["x1", "slope"], ["z"]),
    node("Sigmoid", ["z"], ["e"]),
    node("Mul", ["x1", "e"], ["g"]),
]
DENSE = [node("MatMul", ["x", "w"], ["x0"]), node("Add", ["x0", "b"], ["x1"])]


def model(nodes, outputs=("y",)):
    shapes = {"y": [3, 6], "g": [3, 20], "y2": [3, 20]}
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 12])]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in outputs]
    used = {i for n in nodes for i in n.input}
    known = [numpy_helper.from_array(np.asarray(a), n) for n, a in WEIGHTS.items() if n in used]
    made = helper.make_graph(nodes, "net", ports, outs, known)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def optimised(nodes, outputs=("y",)):
    """The optimised graph, which computes what the model says."""
    net = model(nodes, outputs)
    graph = optimise(compiler.load(net.SerializeToString()), check=verified)
    feeds = {"x": RNG.standard_normal((3, 12)).astype(np.float32)}
    found = run(graph, feeds)
    wanted = ReferenceEvaluator(onnx.load_from_string(net.SerializeToString())).run(None, feeds)
    for name, array in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(found[name], array, rtol=2e-4, atol=2e-5)
    return graph


def verified(graph):
    verify(graph)
    return graph


def steps(graph, name):
    found = next(n for n in graph.nodes if isinstance(n, Compute) and n.output == name)
    return [s.op for s in found.post.steps if s.op not in ("arg", "const")]


@pytest.mark.parametrize("gate", [GELU, HALF_FIRST])
def test_the_error_linear_unit_takes_three_steps_besides_its_erf(gate):
    graph = optimised([*DENSE, *gate, node("MatMul", ["g", "v"], ["y"])])
    assert steps(graph, "g") == ["add", "erf", "mul", "add"]


def test_a_gate_by_a_multiple_of_the_sum_takes_its_factor_into_the_weights():
    graph = optimised([*DENSE, *SIGMOID, node("MatMul", ["g", "v"], ["y"])])
    assert steps(graph, "g") == ["add", "sigmoid", "mul"]


def test_a_result_that_leaves_keeps_its_factor():
    graph = optimised([*DENSE, *GELU, node("MatMul", ["g", "v"], ["y"])], ("y", "g"))
    assert steps(graph, "g") == ["add", "erf", "mul", "add", "mul"]


def test_weights_that_others_read_too_stay_as_they_are():
    other = [node("Tanh", ["x"], ["t"]), node("MatMul", ["t", "w"], ["y2"])]
    graph = optimised([*DENSE, *GELU, *other, node("MatMul", ["g", "v"], ["y"])], ("y", "y2"))
    assert not any(name.startswith("w~") for name in graph.constants)
    assert "mul" in steps(graph, "g")


LEARNED = [
    node("Add", ["x1", "three"], ["z"]),
    node("Clip", ["z", "zero", "six"], ["c"]),
    node("Mul", ["x1", "c"], ["h"]),
    node("Div", ["h", "six"], ["m"]),
    node("Mul", ["m", "slope"], ["n"]),
    node("Add", ["n", "shift"], ["g"]),
]


def test_the_factor_of_a_gate_with_a_learned_scale_and_shift_goes_into_the_weights():
    graph = optimised([*DENSE, *LEARNED, node("MatMul", ["g", "v"], ["y"])], ("y", "g"))
    assert steps(graph, "g") == ["add", "mul", "add", "max", "min", "mul", "add"]  # two pairs of them are one step


def test_a_shift_that_reads_the_sum_too_stays_as_it_is():
    nodes = [*LEARNED[:-1], node("Add", ["n", "x1"], ["g"])]
    graph = optimised([*DENSE, *nodes], ("g",))
    assert not any(name.startswith("w~") for name in graph.constants)
