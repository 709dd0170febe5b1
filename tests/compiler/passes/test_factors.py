"""Constant factors behind views of a product go into its weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import absorb, factors, fold_views, fuse, optimise
from tests.tiers import some

ROWS, HEADS, DEPTH = 5, 2, 3


def scores(scale, reader="MatMul", seed=0):
    """Two dense layers, their heads apart, each times ``scale``, and the product of both; or something else that reads them."""
    width, rng = HEADS * DEPTH, np.random.default_rng(seed)
    nodes, made = [], []
    weights = [numpy_helper.from_array(np.array([ROWS, HEADS, DEPTH], np.int64), "split")]
    weights.append(numpy_helper.from_array(np.array(scale, np.float32), "scale"))
    for name, order in (("q", [1, 0, 2]), ("k", [1, 2, 0])):
        weights += [
            numpy_helper.from_array(rng.standard_normal((width, width)).astype(np.float32), f"{name}w"),
            numpy_helper.from_array(rng.standard_normal(width).astype(np.float32), f"{name}b"),
        ]
        nodes += [
            helper.make_node("MatMul", ["x", f"{name}w"], [f"{name}0"]),
            helper.make_node("Add", [f"{name}0", f"{name}b"], [f"{name}1"]),
            helper.make_node("Reshape", [f"{name}1", "split"], [f"{name}2"]),
            helper.make_node("Transpose", [f"{name}2"], [f"{name}3"], perm=order),
            helper.make_node("Mul", [f"{name}3", "scale"], [f"{name}4"], name=f"scale {name}"),
        ]
        made.append(f"{name}4")
    nodes.append(helper.make_node(reader, made if reader == "MatMul" else ["q1"], ["y"]))
    if reader != "MatMul":
        nodes.append(helper.make_node("MatMul", made, ["z"]))
    outputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "z")[: 1 + (reader != "MatMul")]
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, width])]
    model = helper.make_graph(nodes, "scores", inputs, outputs, weights)
    opset = [helper.make_opsetid("", 17)]
    return compiler.load(helper.make_model(model, opset_imports=opset).SerializeToString())


def maps(graph):
    return [n.name for n in graph.nodes if isinstance(n, Compute) and n.reducer is None]


@settings(max_examples=some(100), deadline=None)
@given(st.floats(-4, 4, width=32).filter(lambda c: abs(c) > 0.01), st.integers(0, 100))
def test_scaled_heads_are_products_of_scaled_weights(scale, seed):
    graph = scores(scale, seed=seed)
    done = optimise(graph, check=verify)
    assert not maps(done)
    feeds = {"x": np.random.default_rng(1).standard_normal((ROWS, HEADS * DEPTH)).astype(np.float32)}
    want, got = run(graph, feeds)["y"], run(done, feeds)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("reader", ["Relu", "Tanh"])
def test_what_others_read_too_keeps_its_size(reader):
    graph = fuse(fold_views(scores(0.5, reader)))
    done = verify(absorb(factors(graph)))
    assert len(maps(done)) > len(maps(verify(absorb(factors(fuse(fold_views(scores(0.5))))))))
    feeds = {"x": np.ones((ROWS, HEADS * DEPTH), np.float32)}
    for name, want in run(graph, feeds).items():
        np.testing.assert_allclose(run(done, feeds)[name], want, rtol=1e-5, atol=1e-5)
