"""The bound of a sort: numbers of eight bytes take two lanes in each of its stages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from compiler import targets
from compiler.bounds import bounds
from compiler.passes import optimise
from tests.tiers import some


def ordered(rows, width, first):
    """The first few of each row of an input, by TopK."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, first])
    k = helper.make_tensor("k", TensorProto.INT64, [1], [first])
    graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["y", "places"])], "net", [x], [y], [k])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    return compiler.load(data)


@settings(max_examples=some(20))
@given(st.integers(1, 40), st.integers(2, 300), st.data(), st.sampled_from(["lpu", "edge"]))
def test_no_program_is_below_its_bound(rows, width, data, target):
    graph = ordered(rows, width, data.draw(st.integers(1, width)))
    machine = targets.resolve(target)
    program, least = compiler.compile(graph, machine).resources, bounds(optimise(graph), machine)
    assert program.cycles >= least.latency
    assert program.interval >= least.interval


@pytest.mark.parametrize("rows", [64, 256])
def test_long_sorts_are_near_their_bound(rows):
    graph, machine = ordered(rows, 256, 8), targets.resolve("lpu")
    assert compiler.compile(graph, machine).resources.interval <= 1.2 * bounds(optimise(graph), machine).interval
