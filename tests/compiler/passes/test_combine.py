"""Contractions side by side, windows as maps, constants as literals: fewer passes, the same bits."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import combine, literals, optimise, windows
from tests.compiler.checks import same

F32 = DType.F32


def contractions(graph):
    return [n for n in graph.nodes if isinstance(n, Compute) and n.is_contraction]


def attention():
    """Queries, keys and values of one input, with biases, and a product that reads another."""
    rng = np.random.default_rng(0)
    node = helper.make_node
    nodes = []
    for name in "qkv":
        nodes += [node("MatMul", ["x", f"w{name}"], [f"m{name}"]), node("Add", [f"m{name}", f"b{name}"], [name])]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
        node("MatMul", ["y", "wq"], ["z"]),
    ]
    weights = [numpy_helper.from_array(rng.standard_normal((8, 8)).astype("f4"), f"w{n}") for n in "qkv"]
    weights += [numpy_helper.from_array(rng.standard_normal(8).astype("f4"), f"b{n}") for n in "qkv"]
    x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 5, 8)) for n in "xz")
    graph = helper.make_graph(nodes, "attention", [x], [z], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return compiler.load(model.SerializeToString())


def test_query_key_and_value_become_one_product_and_the_report_lists_them():
    graph = attention()
    done = optimise(graph, check=lambda g: verify(g) or g)
    assert len(contractions(done)) == 4  # the three as one, scores, values, the last
    (group,) = json.loads(done.metadata["combined"])
    assert len(group) == 3
    feed = {"x": np.random.default_rng(1).standard_normal((1, 5, 8)).astype("f4")}
    assert same(run(done, feed)["z"], run(graph, feed)["z"])
    program = compiler.compile(graph)
    outputs, counters = compiler.simulate(program.to_bytes(), feed)
    assert same(outputs["z"], run(graph, feed)["z"])
    assert counters == program.resources


def test_single_filters_of_one_image_become_one_product():
    b = Builder("singles")
    x = b.input("x", TensorType(F32, (1, 6, 4, 5)))
    image = Operand(x, Access((0, 0, 0, 0), ((0,) * 5, (0, 0, 0, 0, 1), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0))))
    made = {}
    for name in "ab":
        b.source = (name,)
        weights = b.constant(np.random.default_rng(len(made)).standard_normal((1, 6, 1, 1)).astype("f4"))
        taps = Access((0, 0, 0, 0), ((0,) * 5, (0, 0, 0, 0, 1), (0,) * 5, (0,) * 5))
        made[name] = b.compute(
            (1, 1, 4, 5, 6), [image, Operand(weights, taps)], arg(0, F32) * arg(1, F32), parallel=4, reducer="sum"
        )
    graph = b.finish(made, {}, {})
    done = combine(graph)
    verify(done)
    (together,) = contractions(done)
    assert together.loops == (1, 2, 4, 5, 6)
    feed = {"x": np.random.default_rng(5).standard_normal((1, 6, 4, 5)).astype("f4")}
    assert all(same(run(done, feed)[name], run(graph, feed)[name]) for name in made)


def test_products_that_differ_in_more_than_constants_stay_apart():
    b = Builder("apart")
    x = b.input("x", TensorType(F32, (4, 6)))
    left, right = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))
    made = []
    for seed, post in ((1, None), (2, arg(-1, F32).op("max", 0.0))):
        b.source = (f"op{seed}",)
        w = b.constant(np.random.default_rng(seed).standard_normal((6, 5)).astype("f4"))
        operands = [Operand(x, left), Operand(w, right)]
        made.append(b.compute((4, 5, 6), operands, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum", post=post))
    graph = b.finish({"a": made[0], "b": made[1]}, {}, {})
    assert combine(graph) is graph


@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize(
    ("reducer", "kind"), [("max", F32), ("min", F32), ("max", DType.U8), ("sum", DType.I32), ("sum", F32)]
)
@pytest.mark.parametrize("counted", [False, True])
def test_a_window_as_maps_keeps_every_bit(kernel, reducer, kind, counted):
    """``counted``: the elements are scaled before they are reduced, and the result by another value for each place."""
    b = Builder("window")
    x = b.input("x", TensorType(kind, (3, 21, 21)))
    rows = ((1, 0, 0, 0, 0), (0, 2, 0, 1, 0), (0, 0, 2, 0, 1))
    out = (21 + 2 - kernel) // 2 + 1
    fill = {"max": -np.inf, "min": np.inf}.get(reducer, 0) if kind.is_float else 0
    b.source = ("pool",)
    operand = Operand(x, Access((0, -1, -1), rows), fill)
    two = 2.0 if kind.is_float else 2
    counts = b.constant(np.arange(out, dtype=kind.numpy))
    operands = [operand, Operand(counts, Access((0,), ((0, 0, 1, 0, 0),)))]
    term, post = (arg(0, kind) * two, arg(-1, kind) * arg(1, kind)) if counted else (arg(0, kind), arg(-1, kind) * two)
    y = b.compute((3, out, out, kernel, kernel), operands[: 1 + counted], term, parallel=3, reducer=reducer, post=post)
    graph = b.finish({"y": y}, {}, {})
    done = windows(graph)
    verify(done)
    assert all(node.reducer is None and len(node.operands) <= 4 for node in done.nodes)
    rng = np.random.default_rng(kernel)
    feed = {"x": (rng.standard_normal((3, 21, 21)) * 40).astype(kind.numpy)}
    if kind.is_float:
        feed["x"][0, 0, :3] = [-0.0, np.nan, np.inf]
        feed["x"][1] = -0.0  # a sum of these is one, but the tree is filled up with zeros
    got, want = run(done, feed)["y"], run(graph, feed)["y"]
    assert same(got, want)
    assert not kind.is_float or np.array_equal(np.signbit(got), np.signbit(want))


def test_a_sum_of_neighbours_stays_a_reduction():
    b = Builder("sum")
    x = b.input("x", TensorType(F32, (900,)))
    b.source = ("sum",)
    y = b.compute((300, 3), [Operand(x, Access((0,), ((3, 1),)))], arg(0, F32), parallel=1, reducer="sum")
    graph = b.finish({"y": y}, {}, {})
    assert windows(graph).nodes == graph.nodes


def test_a_constant_of_one_element_becomes_a_literal_and_factors_stay_operands():
    b = Builder("literal")
    x = b.input("x", TensorType(F32, (4,)))
    c = b.constant(np.array([1.5], "f4"))
    b.source = ("scale",)
    operands = [Operand(x, Access.identity(1)), Operand(c, Access((0,), ((0,),)))]
    y = b.compute((4,), operands, arg(0, F32) * arg(1, F32))
    graph = b.finish({"y": y}, {}, {})
    (node,) = literals(graph).nodes
    assert [o.value for o in node.operands] == [x]
    feed = {"x": np.array([1, -0.0, np.nan, np.inf], "f4")}
    assert same(run(literals(graph), feed)["y"], run(graph, feed)["y"])


def test_what_is_combined_in_every_step_of_a_recurrent_layer_is_stored_once():
    rng = np.random.default_rng(2)
    weights = [numpy_helper.from_array(rng.standard_normal((8, 8)).astype("f4"), f"w{n}") for n in range(3)]
    nodes, state, make = [], "x", helper.make_node
    for step in range(4):
        nodes += [make("MatMul", [state, f"w{n}"], [f"m{step}{n}"]) for n in range(3)]
        pairs = ((0, 1), (1, 2), (2, 0))
        nodes += [make("Mul", [f"m{step}{a}", f"m{step}{b}"], [f"p{step}{a}"]) for a, b in pairs]
        nodes += [make("Sum", [f"p{step}{n}" for n in range(3)], [f"s{step}"])]
        state = f"s{step}"
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 8)) for n in ("x", state))
    imports = [helper.make_opsetid("", 17)]
    graph = compiler.load(
        helper.make_model(helper.make_graph(nodes, "steps", [x], [y], weights), opset_imports=imports)
    )
    done = optimise(graph, check=verify)
    assert len(json.loads(done.metadata["combined"])) == 4
    assert sum(a.nbytes for a in done.constants.values()) == 3 * 8 * 8 * 4
    feed = {"x": rng.standard_normal((1, 8)).astype("f4") / 8}
    assert same(run(done, feed)[state], run(graph, feed)[state])
