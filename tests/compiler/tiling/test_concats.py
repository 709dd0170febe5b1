"""Parts of concats are written where they belong, under whatever name and shape, and narrow ones in whole lines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from compiler import targets
from tests.compiler.checks import check_program
from tests.compiler.frontend.test_recurrent import recurrent
from tests.compiler.tiling.test_outputs import beats_of, feeds_of, graph_of
from tests.tiers import some

LPU = targets.load("lpu")


def stacked(fields, rows, width):
    """Rows of several tables one below the other, then a product of all pairs."""
    nodes = [helper.make_node("Cast", ["x"], ["ids"], to=TensorProto.INT64)]
    weights = {"axes": np.array([1], np.int64)}
    for n in range(fields):
        weights |= {f"t{n}": (200, width), f"n{n}": np.array(n, np.int64)}
        nodes += [
            helper.make_node("Gather", ["ids", f"n{n}"], [f"i{n}"], axis=1),
            helper.make_node("Gather", [f"t{n}", f"i{n}"], [f"r{n}"], axis=0),
            helper.make_node("Unsqueeze", [f"r{n}", "axes"], [f"u{n}"]),
        ]
    nodes += [
        helper.make_node("Concat", [f"u{n}" for n in range(fields)], ["both"], name="concat", axis=1),
        helper.make_node("Transpose", ["both"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["both", "turned"], ["y"], name="pairs"),
    ]
    return graph_of(nodes, {"x": [rows, fields]}, [rows, fields, fields], weights)


def waves(rows, dims, count):
    """Positions beside their sines at several frequencies, then a product."""
    nodes, names = [], ["x"]
    for n in range(count):
        nodes.append(helper.make_node("Mul", ["x", f"f{n}"], [f"m{n}"]))
        nodes.append(helper.make_node("Sin", [f"m{n}"], [f"w{n}"], name=f"wave{n}"))
        names.append(f"w{n}")
    nodes.append(helper.make_node("Concat", names, ["all"], name="concat", axis=1))
    nodes.append(helper.make_node("MatMul", ["all", "weights"], ["y"], name="product"))
    weights = {f"f{n}": np.float32(2**n) for n in range(count)}
    weights["weights"] = (dims * (count + 1), 32)
    return graph_of(nodes, {"x": [rows, dims]}, [rows, 32], weights)


@pytest.mark.parametrize(("fields", "rows", "width"), [(6, 64, 32), (3, 40, 80), (9, 16, 16)])
def test_rows_of_tables_are_stacked_where_they_are_looked_up(fields, rows, width):
    graph = stacked(fields, rows, width)
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    assert not beats_of(plan)["move", "concat"]


@pytest.mark.parametrize(("rows", "dims", "count"), [(512, 3, 8), (1024, 2, 12), (700, 3, 6)])
def test_narrow_parts_are_written_in_whole_lines(rows, dims, count):
    """A row of the concat has a few elements of each part: written row by row a part would take a line for each."""
    graph = waves(rows, dims, count)
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    found = beats_of(plan)
    row_by_row = rows // LPU.vector.ports["out"]
    assert found["vector", f"wave{count - 1}"] < row_by_row
    assert found["move", "concat"] < row_by_row


@pytest.mark.parametrize(("channels", "side", "size"), [(19, 28, 4), (32, 20, 6), (8, 40, 2)])
def test_phases_of_a_transposed_convolution_are_written_where_they_belong(channels, side, size):
    """A concat along rows of concats along pixels, under other shapes between."""
    up = helper.make_node("ConvTranspose", ["x", "w"], ["up"], name="up", strides=[2, 2], pads=[size // 2 - 1] * 4)
    nodes = [up, helper.make_node("Relu", ["up"], ["r"]), helper.make_node("Conv", ["r", "v"], ["y"], name="after")]
    length = 2 * (side - 1) + size - 2 * (size // 2 - 1)
    weights = {"w": (16, channels, size, size), "v": (64, channels, 1, 1)}
    graph = graph_of(nodes, {"x": [1, 16, side, side]}, [1, 64, length, length], weights)
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    assert beats_of(plan)["move", "up"] <= graph.types["y"].elements // 64 * channels // LPU.line_bytes


def nested(axes, shape, inner, outer):
    """A concat of concats of maps, some of which read another part."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("Concat", ["s", "t"] if inner else ["t", "x"], ["first"], axis=axes[0]),
        helper.make_node("Abs", ["first"], ["a"]),
        helper.make_node("Concat", ["first", "a"] if outer else ["a", "first"], ["second"], axis=axes[1]),
        helper.make_node("Neg", ["second"], ["n"]),
        helper.make_node("Concat", ["n", "second"], ["y"], axis=axes[2]),
    ]
    whole = list(shape)
    for axis in axes:
        whole[axis] *= 2
    return graph_of(nodes, {"x": shape}, whole, {})


@settings(max_examples=some(20), deadline=None)
@given(
    st.tuples(*[st.integers(0, 2)] * 3),
    st.lists(st.integers(1, 14), min_size=3, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["lpu", "edge"]),
)
def test_concats_of_concats_are_the_same(axes, shape, inner, outer, target):
    graph = nested(axes, shape, inner, outer)
    check_program(graph, target, [feeds_of(graph)])


@settings(max_examples=some(20), deadline=None)
@given(
    st.lists(st.tuples(st.permutations(range(3)), st.integers(1, 30), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 2),
    st.tuples(st.integers(1, 24), st.integers(1, 24)),
    st.booleans(),
    st.sampled_from(["lpu", "edge"]),
)
def test_parts_under_another_name_are_the_same(parts, axis, others, read, target):
    """Parts that are turned, split in two dimensions, repeated from another part, or the input itself."""
    shape = list(others)
    shape.insert(axis, 0)
    nodes, weights, inputs, names = [], {}, {}, []
    for n, (order, length, mapped) in enumerate(parts):
        whole = [length if j == axis else d for j, d in enumerate(shape)]
        before = [0, 0, 0]
        for j, at in enumerate(order):
            before[at] = whole[j]
        inputs[f"x{n}"] = [1, *before]
        weights[f"shape{n}"] = np.array(before, np.int64)
        nodes += [
            helper.make_node("Sigmoid" if mapped else "Identity", [f"x{n}"], [f"s{n}"]),
            helper.make_node("Reshape", [f"s{n}", f"shape{n}"], [f"r{n}"]),
            helper.make_node("Transpose", [f"r{n}"], [f"t{n}"], perm=list(order)),
            helper.make_node("Exp", [f"t{n}"], [f"e{n}"]),
        ]
        names += [f"t{n}", f"e{n}"] if read else [f"t{n}"]
    shape[axis] = sum(length for _, length, _ in parts) * (2 if read else 1)
    nodes += [helper.make_node("Concat", names, ["all"], axis=axis), helper.make_node("Tanh", ["all"], ["y"])]
    graph = graph_of(nodes, inputs, shape, weights)
    check_program(graph, target, [feeds_of(graph)])


def test_directions_of_a_recurrent_layer_run_side_by_side():
    """A state that is stacked with the other direction's is read while that is written: they may share no line."""
    one, both = (
        compiler.compile(compiler.load(recurrent("LSTM", 8, 4, 16, 56, way=way)), targets.resolve("lpu")).resources
        for way in ("forward", "bidirectional")
    )
    assert both.cycles <= 1.25 * one.cycles
