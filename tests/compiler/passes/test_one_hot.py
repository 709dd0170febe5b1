"""One-hot products as look-ups: the same numbers, whatever the input holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.graph import Compute, Gather
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise
from tests.compiler.checks import check_program
from tests.tiers import some

KINDS = {
    np.int8: TensorProto.INT8,
    np.uint8: TensorProto.UINT8,
    np.int32: TensorProto.INT32,
    np.int64: TensorProto.INT64,
}


def model(rows, depth, columns, kind=np.int32, after="gelu", first=0, weights=None):
    """``rows`` numbers, compared with ``first``, ``first + 1``, ..., by a matrix, with something behind the sum."""
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((depth, columns)).astype(np.float32) if weights is None else weights
    given = [
        numpy_helper.from_array(np.arange(first, first + depth).astype(kind)[None], "places"),
        numpy_helper.from_array(matrix, "w"),
        numpy_helper.from_array(rng.standard_normal(columns).astype(np.float32), "bias"),
    ]
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["wide"]),
        helper.make_node("Equal", ["wide", "places"], ["same"]),
        helper.make_node("Cast", ["same"], ["hot"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["hot", "w"], ["sum"]),
    ]
    given.append(numpy_helper.from_array(np.array([1], np.int64), "axis"))
    inputs = [helper.make_tensor_value_info("x", KINDS[kind], [rows])]
    if after == "gelu":
        nodes += [
            helper.make_node("Add", ["sum", "bias"], ["moved"]),
            helper.make_node("Tanh", ["moved"], ["bent"]),
            helper.make_node("Mul", ["moved", "bent"], ["y"]),
        ]
    elif after == "input":
        inputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [rows, columns]))
        nodes += [helper.make_node("Add", ["sum", "z"], ["y"])]
    else:
        nodes[-1].output[0] = "y"
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])
    graph = helper.make_graph(nodes, "hot", inputs, [output], given)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return compiler.load(made.SerializeToString())


def looked_up(graph):
    return any(isinstance(n, Gather) for n in graph.nodes) and not any(
        isinstance(n, Compute) and n.is_contraction for n in graph.nodes
    )


def feeds(graph, numbers):
    rng = np.random.default_rng(4)
    fed = {"x": numbers.astype(graph.types["x"].dtype.numpy)}
    if "z" in graph.inputs:
        fed["z"] = rng.standard_normal(graph.types["z"].shape).astype(np.float32)
    return fed


@settings(max_examples=some(30), deadline=None)
@given(
    st.integers(1, 40),
    st.integers(2, 120),
    st.integers(1, 9),
    st.sampled_from(list(KINDS)),
    st.sampled_from(["gelu", "input", ""]),
    st.integers(0, 1 << 30),
)
def test_look_ups_have_the_bits_of_the_products(rows, depth, columns, kind, after, seed):
    graph = model(rows, depth, columns, kind, after)
    made = optimise(graph, check=verify)
    assert looked_up(made)
    limits = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    near = rng.integers(max(limits.min, -3), min(limits.max, depth + 3) + 1, rows)
    far = rng.choice([limits.min, limits.max, 0, depth - 1, depth if depth <= limits.max else 0], rows)
    for numbers in (near, far):
        fed = feeds(graph, numbers)
        assert np.array_equal(run(graph, fed, {})["y"], run(made, fed, {})["y"])


@pytest.mark.parametrize("after", ["gelu", "input", ""])
def test_programs_of_look_ups_are_exact(after):
    made = optimise(model(300, 17, 40, np.int32, after))
    assert looked_up(made)
    check_program(made, "lpu", [feeds(made, np.arange(-5, 295) % 23 - 3)])


def test_what_follows_is_computed_for_the_table_where_that_is_less():
    few, many = optimise(model(4, 17, 40)), optimise(model(400, 17, 40))
    assert [sum(n.points for n in g.nodes if isinstance(n, Compute)) for g in (few, many)] == [4 + 4 * 40, 400]


@pytest.mark.parametrize(("axis", "looked"), [(-1, True), (1, False)])
def test_the_one_hot_operator_is_looked_up_where_rows_lie_together(axis, looked):
    """Along another axis neighbours of the result come from different rows: each element would be looked up on its own."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((9, 5)).astype(np.float32)
    given = [
        numpy_helper.from_array(np.array(9, np.int64), "depth"),
        numpy_helper.from_array(np.array([0, 1], np.float32), "values"),
        numpy_helper.from_array(weights if axis == -1 else weights.T.copy()[..., None], "w"),
    ]
    nodes = [
        helper.make_node("OneHot", ["x", "depth", "values"], ["hot"], axis=axis),
        helper.make_node("MatMul" if axis == -1 else "Conv", ["hot", "w"], ["y"]),
    ]
    shape = [3, 20, 5] if axis == -1 else [3, 5, 20]
    graph = helper.make_graph(
        nodes,
        "hot",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [3, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        given,
    )
    loaded = compiler.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    made = optimise(loaded, check=verify)
    assert looked_up(made) is looked
    numbers = {"x": rng.integers(-12, 12, (3, 20))}  # below 0 they count from the end; beyond the depth all are 0
    assert np.array_equal(run(loaded, numbers, {})["y"], run(made, numbers, {})["y"])


def test_other_comparisons_stay_products():
    infinite = np.array([[1.0], [np.inf], [2.0]], np.float32)
    for graph in (model(5, 9, 3, first=1), model(5, 3, 1, weights=infinite)):
        assert not looked_up(optimise(graph))
