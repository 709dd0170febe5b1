"""Factors behind a contraction go into its weights only where they are factors of the whole sum."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise

node = helper.make_node
# What follows a product ``m``: nodes that end in ``y``; constants c (a number), v (one per column).
SHARED = {
    "gelu": [node("Gelu", ["m"], ["y"])],
    "gelu by parts": [node("Mul", ["m", "c"], ["a"]), node("Erf", ["a"], ["b"]), node("Mul", ["b", "m"], ["y"])],
    "swish of a multiple": [
        node("Mul", ["m", "c"], ["a"]),
        node("Sigmoid", ["a"], ["b"]),
        node("Mul", ["b", "m"], ["y"]),
    ],
    "columns scaled on one side": [node("Mul", ["m", "v"], ["a"]), node("Add", ["a", "m"], ["y"])],
    "shifted and scaled on one side": [
        node("Add", ["m", "v"], ["a"]),
        node("Mul", ["a", "c"], ["b"]),
        node("Mul", ["b", "a"], ["d"]),
        node("Sub", ["d", "m"], ["y"]),
    ],
    "scaled, then shared": [
        node("Mul", ["m", "v"], ["a"]),
        node("Sigmoid", ["a"], ["b"]),
        node("Mul", ["b", "a"], ["y"]),
    ],
    "normalised, then shared": [
        node("Mul", ["m", "v"], ["a"]),
        node("Add", ["a", "v"], ["d"]),
        node("Sigmoid", ["d"], ["b"]),
        node("Mul", ["b", "d"], ["y"]),
    ],
}


@pytest.mark.parametrize("name", SHARED)
def test_a_sum_that_is_used_twice_keeps_its_value(name):
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((7, 5)), "c": np.array(1.7), "v": rng.standard_normal(5)}
    stored = [numpy_helper.from_array(a.astype("f4"), n) for n, a in constants.items()]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (4, 7)), ("y", (4, 5))))
    graph = helper.make_graph([node("MatMul", ["x", "w"], ["m"]), *SHARED[name]], "shared", [x], [y], stored)
    plain = compiler.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))
    feed = {"x": rng.standard_normal((4, 7)).astype("f4")}
    expected = run(plain, feed)["y"]
    done = optimise(plain, check=verify)
    assert np.allclose(run(done, feed)["y"], expected, rtol=1e-5, atol=1e-5)
    if "then shared" in name:  # the factor is one of every use: it still goes into the weights
        kept = [a for a in done.constants.values() if np.array_equal(a, constants["w"].astype("f4"))]
        assert kept == []
