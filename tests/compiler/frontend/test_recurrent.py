"""Recurrent cells: gates of one activation are one product, and their biases are added before the first step."""

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.passes import optimise
from compiler.precision.limited import bounded
from tests.tiers import some

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(kind, time=4, batch=2, size=3, hidden=5, *, way="forward", scale=1.0, peepholes=False, **attributes):
    """A model of one recurrent layer with biases; its input is x [time, batch, size]."""
    gates, ways = GATES[kind], 2 if way == "bidirectional" else 1
    rng = np.random.default_rng(hidden)
    shapes = {"w": (ways, gates * hidden, size), "r": (ways, gates * hidden, hidden), "b": (ways, 2 * gates * hidden)}
    names = ["x", "w", "r", "b"]
    if peepholes:
        shapes["p"] = (ways, 3 * hidden)
        names += ["", "", "", "p"]
    node = helper.make_node(kind, names, ["y"], hidden_size=hidden, direction=way, **attributes)
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [time, batch, size]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [time, ways, batch, hidden]),
    ]
    weights = [
        numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph([node], "net", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.mark.parametrize(("kind", "attributes", "products"), [
    ("RNN", {}, 1),
    ("GRU", {"linear_before_reset": 0}, 2),
    ("GRU", {"linear_before_reset": 1}, 2),
    ("LSTM", {}, 2),
])  # fmt: skip  # one kind of case to a line
def test_a_step_is_few_operations(kind, attributes, products):
    """All that follows a product and reads each of its results once is behind it: five steps add this much each."""
    operations = [
        [n for n in optimise(compiler.load(recurrent(kind, time, **attributes))).nodes if isinstance(n, Compute)]
        for time in (8, 3)
    ]
    contractions = [sum(n.is_contraction for n in nodes) for nodes in operations]
    assert contractions[0] - contractions[1] == 5 * products
    gates = [n for n in operations[0] if n.is_contraction and n.post and {"sigmoid", "tanh"} & {*n.post.ops}]
    assert len(gates) >= 7 * (products - attributes.get("linear_before_reset", 0))


@settings(max_examples=some(100))
@given(
    st.sampled_from([
        ("RNN", {}), ("GRU", {"linear_before_reset": 0}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {}),
        ("LSTM", {"input_forget": 1}), ("LSTM", {"peepholes": True}), ("LSTM", {"peepholes": True, "input_forget": 1}),
    ]),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.sampled_from([0.0, 0.5]),
)  # fmt: skip  # one kind of case to a line
def test_equals_onnx_runtime(kind, way, time, batch, size, hidden, clip):
    name, attributes = kind
    if clip:
        attributes = attributes | {"clip": clip}
    data = recurrent(name, time, batch, size, hidden, way=way, **attributes)
    x = np.random.default_rng(time).standard_normal((time, batch, size)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    found = run(optimise(compiler.load(data)), {"x": x})["y"]
    assert np.abs(found - wanted).max() < 1e-5


@pytest.mark.parametrize("kind", GATES)
def test_states_are_limited_whatever_comes(kind):
    """Every value that is said to be bounded is, for inputs of any size; states are among them, sums are not."""
    graph = optimise(compiler.load(recurrent(kind, 6, scale=30.0)))
    limited = bounded(graph)
    sums = {n.output for n in graph.nodes if isinstance(n, Compute) and n.is_contraction and not n.post}
    assert not limited & sums
    moving = {n.operands[0].value for n in graph.nodes if isinstance(n, Compute) and n.is_contraction} - {*graph.inputs}
    assert moving
    assert moving <= limited
    values = {}
    rng = np.random.default_rng(0)
    for size in (1.0, 1e3, 1e9):
        x = (size * rng.standard_normal((6, 2, 3))).astype(np.float32)
        run(
            graph,
            {"x": x},
            observe=lambda node, known: values.setdefault(node.output, []).append(np.abs(known[node.output])),
        )
    assert values
    for name in limited & {*values}:
        assert max(map(np.max, values[name])) <= 6.0, name  # a cell state grows by one at most in each of six steps


def test_a_plain_sum_is_not_limited():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("Add", ["t", "x"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    graph = compiler.load(model.SerializeToString())
    assert "t" in bounded(graph)
    assert "y" not in bounded(graph)
