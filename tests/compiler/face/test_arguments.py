"""The library's functions refuse arguments of a wrong form in a sentence that says the right one."""

import json
from contextlib import suppress

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from compiler.__main__ import main
from tests.compiler.face.test_diff import network
from tests.compiler.flow.models import loop_model
from tests.tiers import some

ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dims": "batch"}, r"dims is a mapping, not str; write dims=\{"),
        ({"dims": {"batch": 2.0}}, "'batch' needs a whole number of at least 1, or 0 for no rows, not 2.0"),
        ({"dims": {"batch": [1, "a"]}}, "'batch' needs a whole number"),
        ({"dims": {"batch": True}}, "not True"),
        ({"dims": {3: 1}}, "names 3, which is no text"),
        ({"bounds": [1]}, "bounds is a mapping, not list"),
        ({"bounds": {"l": -1}}, "at least 0, not -1"),
        ({"constants": {"x": [[1], [1, 2]]}}, "'x' is no array"),
        ({"constants": {"x": object()}}, "no array of numbers but object"),
        ({"constants": {"x": np.zeros((2, 8))}}, r"'x' is float32\[2, 8\], but the input is"),
        ({"constants": {"x": np.full((2, 7), 2**24 + 1)}}, r"'x' is int64\[2, 7\], but the input is"),
        ({"states": {"x": "y"}}, r"a list of pairs, not dict; write states=\[\("),
        ({"states": ["xy"]}, "'xy' is no pair of names"),
        ({"states": [("x",)]}, "is no pair of names"),
    ],
)
def test_load_says_how_its_arguments_are_written(given, says):
    with pytest.raises(compiler.ModelError, match=says):
        compiler.load(network(12), **({} if "constants" in given else {"dims": {"batch": 2}}) | given)


def test_whole_numbers_of_any_type_are_sizes():
    wanted = compiler.load(network(12), {"batch": 2})
    assert compiler.load(network(12), {"batch": np.int64(2)}) == wanted
    several = compiler.load(network(12), {"batch": np.array([4, 2])})
    assert several.dims == ({"batch": 2}, {"batch": 4})
    assert compiler.load(loop_model(), bounds={"grow": np.uint8(3)}) == compiler.load(loop_model(), bounds={"grow": 3})


@settings(max_examples=some(100))
@given(st.sampled_from(("dims", "bounds", "constants", "states")), ODD)
def test_whatever_is_given_is_taken_or_refused(argument, value):
    with suppress(compiler.ModelError):
        compiler.load(network(3), **({} if argument == "dims" else {"dims": {"batch": 1}}) | {argument: value})


def test_what_one_function_gives_and_another_takes_is_told():
    graph = compiler.load(network(12), {"batch": 2})
    program = compiler.compile(graph)
    for call, says in (
        (lambda: compiler.load(None), "as a path, as bytes or as a ModelProto, not as NoneType"),
        (lambda: compiler.load(program.to_bytes()), "compiled program, not a model"),
        (lambda: compiler.compile("model.onnx"), "takes what load gives, not str"),
        (lambda: compiler.compile(graph, target=3), "a target is a name, the path of a file"),
        (lambda: compiler.compile(graph, calibration={"x": 1}), "takes a list of feeds"),
        (lambda: compiler.simulate(program, {}), "takes the bytes of a program"),
    ):
        with pytest.raises(compiler.ModelError, match=says):
            call()


def test_inspect_tells_a_scalar_from_a_value_whose_shape_is_not_stated(tmp_path, capsys):
    values = [
        helper.make_tensor_value_info("none", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("one", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("some", TensorProto.FLOAT, ["n", 3, None]),
        helper.make_tensor_sequence_value_info("many", TensorProto.FLOAT, None),
    ]
    nodes = [helper.make_node("Identity", ["x"], [value.name]) for value in values]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    onnx.save(helper.make_model(helper.make_graph(nodes, "odd", [x], values)), tmp_path / "odd.onnx")
    shapes = {v["name"]: v["shape"] for v in compiler.inspect(tmp_path / "odd.onnx")["outputs"]}
    assert shapes == {"none": None, "one": [], "some": ["n", 3, ""], "many": None}
    assert main(["inspect", str(tmp_path / "odd.onnx")]) == 0
    text = capsys.readouterr().out
    for line in (
        "none: float, shape not stated",
        "one: float, a scalar",
        "some: float[n, 3, ?]",
        "many: sequence, shape not stated",
    ):
        assert f"output {line}\n" in text
    assert main(["inspect", str(tmp_path / "odd.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] is None
