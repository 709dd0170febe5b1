"""Divisions of sums by literals become products: fewer passes, values within rounding, never where a step decides on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.ir.terms import arg, const, expression
from compiler.ir.types import DType
from compiler.ir.verifier import verify
from compiler.numerics.scalar import evaluate
from compiler.passes import optimise
from compiler.precision.encoding import steps
from compiler.precision.reciprocals import of_rows, without_divisions
from tests.tiers import some

X = arg(-1, DType.F32)


def value(term, x):
    made = [(s.op, s.args, s.dtype.numpy, s.imm) for s in expression(term).steps]
    return evaluate(made, lambda _: np.asarray([x], np.float32), lambda _: np.zeros(1))[0]


def hard_swish(x):
    return x * (x + 3.0).op("max", 0.0).op("min", 6.0) / 6.0


def names(term):
    return [s.op for s in expression(term).steps if s.op not in ("arg", "const")]


def test_hard_swish_takes_its_division_into_the_literals_of_its_clip():
    made = without_divisions(hard_swish(X))
    assert names(made) == ["mul", "add", "max", "min", "mul"]
    assert steps(made) == 4  # muladd, max, min, mul
    assert steps(without_divisions(hard_swish(X * arg(1, DType.F32) + arg(2, DType.F32)))) == 5


@settings(max_examples=some(100))
@given(st.floats(-1e4, 1e4, width=32), st.floats(2.0**-20, 2.0**20, width=32))
def test_values_stay_within_rounding(x, divisor):
    for term in (hard_swish(X), X / divisor, (X.op("max", -1.0) + 2.0) / divisor, X * 5.0 / divisor):
        made = without_divisions(term)
        assert "div" not in names(made)
        expected = float(value(term, x))
        largest = max(abs(expected), (abs(x) + 2.0) / divisor if term.args[1].imm == divisor else abs(x))
        assert abs(float(value(made, x)) - expected) <= 2e-6 * largest


@pytest.mark.parametrize(
    "term",
    [
        (X / 3.0).op("floor"),
        (X / 3.0).cast(DType.I32),
        (X / 3.0).op("lt", 1.0),
        X / 0.0,
        X / -3.0,
        X / 3e38,
        X / 2.0**-140,
        const(1.0, DType.F32) / X,
        arg(0, DType.I32) / const(3, DType.I32),
    ],
    ids=lambda t: "-".join(names(t)),
)
def test_what_decides_and_what_has_no_ordinary_reciprocal_is_divided(term):
    assert without_divisions(term) is term


def softmax(rows, columns, also=()):
    """A softmax of an input, as the frontend makes it; ``also``: operators that read the sums or the exponentials too."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["x", "largest"], ["below"]),
        helper.make_node("Exp", ["below"], ["exp"]),
        helper.make_node("ReduceSum", ["exp", "axis"], ["sum"], keepdims=1),
        helper.make_node("Div", ["exp", "sum"], ["y"]),
        *also,
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, columns])
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", *(o.output[0] for o in also))]
    axis = numpy_helper.from_array(np.array([1], np.int64), "axis")
    graph = helper.make_graph(nodes, "softmax", [x], outputs, [axis])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return optimise(compiler.load(made.SerializeToString()))


def divisions(graph):
    """Elements that are divided."""
    return sum(
        n.points
        for n in graph.nodes
        if isinstance(n, Compute)
        for e in (n.expr, n.post)
        if e
        for s in e.steps
        if s.op == "div"
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(8, 40), st.integers(0, 1 << 20))
def test_softmax_divides_once_a_row(rows, columns, seed):
    graph = softmax(rows, columns)
    made = verify(of_rows(graph))
    assert (divisions(graph), divisions(made)) == (rows * columns, rows)
    fed = {"x": np.random.default_rng(seed).uniform(-30, 30, (rows, columns)).astype(np.float32)}
    want, got = run(graph, fed, {})["y"], run(made, fed, {})["y"]
    assert np.allclose(got, want, rtol=3e-7, atol=1e-37)


@pytest.mark.parametrize(
    "also", [helper.make_node("Add", ["exp", "sum"], ["z"]), helper.make_node("Div", ["sum", "exp"], ["z"])]
)
def test_sums_that_are_read_otherwise_stay_sums(also):
    graph = softmax(3, 9, [also])
    assert of_rows(graph) == graph


def test_few_elements_of_a_row_are_divided():
    graph = softmax(3, 4)
    assert of_rows(graph) == graph
