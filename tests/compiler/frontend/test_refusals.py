"""Whatever is wrong with a model ends in one ModelError that says what to change."""

import contextlib
import re

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import ModelError
from compiler.frontend import load, symbolic_dims
from compiler.frontend.limits import Limits
from compiler.ir.verifier import verify
from tests.tiers import some

F = TensorProto.FLOAT


def model(nodes, inputs=(("x", F, [2, 3]),), outputs=("y",), initializers=(), opset=17, functions=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, F, None) for n in outputs],
        list(initializers),
    )
    domains = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in {f.domain for f in functions})]
    return helper.make_model(graph, opset_imports=domains, functions=list(functions))


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, name=attributes.pop("name", kind.lower()), **attributes)


def refusal(source, **arguments):
    with pytest.raises(ModelError) as caught:
        load(source, **arguments)
    return caught.value


GOOD = model([node("Relu", ["x"], ["y"])])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"This is a shopping list.\nMilk.\n", "is text, not an ONNX model"),
        (b"PK\x03\x04" + bytes(100), "archive"),
        (GOOD.SerializeToString()[:-7], "cut off"),
        (bytes(range(256)) * 20, "no ONNX model"),
        (b"\x08\x07", "no graph"),
    ],
)
def test_a_file_that_is_no_model_is_told_apart(data, said):
    assert said in str(refusal(data))


def test_a_file_that_is_not_there_and_one_that_is_too_large(tmp_path):
    assert "cannot be read" in str(refusal(tmp_path / "no.onnx"))
    big = tmp_path / "big.onnx"
    big.write_bytes(GOOD.SerializeToString())
    assert "the limit is 10" in str(refusal(big, limits=Limits(file_bytes=10)))
    assert load(big).inputs == ("x",)


@settings(max_examples=some(200), deadline=None)
@given(cut=st.integers(0, 400), flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
def test_a_damaged_file_gives_a_graph_or_a_model_error(cut, flips):
    weights = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    data = bytearray(
        model(
            [node("MatMul", ["x", "w"], ["t"]), node("Relu", ["t"], ["y"])], initializers=[weights]
        ).SerializeToString()
    )
    for place, value in flips:
        data[place % len(data)] = value
    with contextlib.suppress(ModelError):
        verify(load(bytes(data[: max(1, len(data) - cut)] if cut < 200 else data)))


def test_every_unsupported_operator_is_listed_at_once_with_count_place_and_remedy():
    error = refusal(
        model(
            [
                node("Relu", ["x"], ["a"]),
                node("RandomNormalLike", ["a"], ["b"], name="nms_1"),
                node("RandomNormalLike", ["b"], ["c"], name="nms_2"),
                node("Frobnicate", ["c"], ["y"], name="frob"),
            ]
        )
    )
    assert len(error.problems) == 2
    first, second = (str(p) for p in error.problems)
    assert "RandomNormalLike is not supported yet (2 x: nms_1, nms_2)" in first
    assert "Frobnicate is not an operator of the ONNX standard (1 x: frob)" in second
    assert "2 reasons" in str(error)


def test_an_operator_of_another_domain_names_its_remedy():
    other = helper.make_node("CropAndResize", ["x", "x"], ["y"], name="f", domain="com.microsoft")
    assert "without the optimisations of one runtime" in str(refusal(model([other])))


def test_a_cycle_is_named():
    error = refusal(
        model(
            [
                node("Add", ["x", "b"], ["a"], name="first"),
                node("Relu", ["a"], ["b"], name="second"),
                node("Relu", ["b"], ["y"]),
            ]
        )
    )
    assert "cyclic" in str(error)
    assert "first, second" in str(error)


@pytest.mark.parametrize(
    ("nodes", "stored"),
    [
        ([("Relu", ["x"], ["y"]), ("Neg", ["x"], ["y"])], []),
        ([("Relu", ["x"], ["x"]), ("Neg", ["x"], ["y"])], []),
        ([("Add", ["x", "w"], ["y"])], ["w", "w"]),
        ([("Relu", ["x"], ["w"]), ("Neg", ["w"], ["y"])], ["w"]),
    ],
)
def test_a_name_of_two_values_is_refused(nodes, stored):
    graph = helper.make_graph(
        [helper.make_node(*n) for n in nodes],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.full(3, i, np.float32), name) for i, name in enumerate(stored)],
    )
    with pytest.raises(ModelError, match="Two values have the name"):
        load(helper.make_model(graph).SerializeToString())


def test_sums_over_nothing_are_zero_whatever_has_no_elements():
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("GlobalMaxPool", ["z"], ["m"])]
    shapes = {"x": [1, 0, 5, 5], "z": [1, 3, 0, 0]}
    graph = helper.make_graph(
        nodes,
        "none",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("c", "m")],
        [numpy_helper.from_array(np.zeros((4, 0, 3, 3), np.float32), "w")],
    )
    program = compiler.compile(load(helper.make_model(graph).SerializeToString()))
    found, counters = compiler.simulate(program.to_bytes(), {n: np.zeros(s, np.float32) for n, s in shapes.items()})
    assert counters == program.resources
    assert np.array_equal(found["c"], np.zeros((1, 4, 3, 3), np.float32))
    assert np.array_equal(found["m"], np.full((1, 3, 1, 1), -np.inf, np.float32))


def test_operations_out_of_order_are_put_in_order():
    graph = load(model([node("Relu", ["a"], ["y"], name="late"), node("Neg", ["x"], ["a"], name="early")]))
    assert [n.source for n in graph.nodes] == [("early",), ("late",)]


def test_a_shape_beyond_all_memory_is_refused_before_it_is_made():
    huge = [1 << 31, 1 << 31]
    assert "the limit" in str(refusal(model([node("Relu", ["x"], ["y"])], inputs=(("x", F, huge),))))
    shape = numpy_helper.from_array(np.array(huge), "shape")
    assert "the limit" in str(
        refusal(model([node("Expand", ["x", "shape"], ["y"])], inputs=(("x", F, [1, 1]),), initializers=[shape]))
    )
    tensor = TensorProto(name="w", data_type=F, dims=huge, raw_data=b"1234")
    assert "claims the shape" in str(refusal(model([node("Add", ["x", "w"], ["y"])], initializers=[tensor])))


def test_a_tensor_that_holds_less_than_it_claims_is_refused():
    tensor = TensorProto(name="w", data_type=F, dims=[2, 3], raw_data=bytes(20))
    assert "Is the file cut?" in str(refusal(model([node("Add", ["x", "w"], ["y"])], initializers=[tensor])))


def test_side_files_of_a_model_given_as_bytes_are_never_opened():
    tensor = TensorProto(name="w", data_type=F, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    error = refusal(model([node("Add", ["x", "w"], ["y"])], initializers=[tensor]))
    assert "stored in the file '../../etc/passwd' beside the model" in str(error)
    assert "Give the model as a path with that file beside it" in str(error)


def test_open_dimensions_are_named_and_bound():
    m = model([node("Relu", ["x"], ["y"])], inputs=(("x", F, ["batch", "?", 3]),))
    assert symbolic_dims(m) == {"batch": ["x[0]"], "x.1": ["x[1]"]}
    error = refusal(m)
    assert "'batch' (x[0])" in str(error)
    assert "dims={'batch': 1, 'x.1': 1}" in str(error)
    assert load(m, {"batch": 4, "x.1": 5}).types["y"].shape == (4, 5, 3)
    assert "whole number" in str(refusal(m, dims={"batch": -1, "x.1": 1}))
    assert "whole number" in str(refusal(m, dims={"batch": 1 << 40, "x.1": 1}))
    assert "no open dimension 'depth'; it has 'batch', 'x.1'" in str(
        refusal(m, dims={"batch": 1, "x.1": 1, "depth": 3})
    )


def test_an_input_that_must_be_known_says_so_and_can_be_given():
    m = model([node("Reshape", ["x", "shape"], ["y"])], inputs=(("x", F, [2, 3]), ("shape", TensorProto.INT64, [1])))
    error = refusal(m)
    assert error.node == "reshape"
    assert "give it as a constant when compiling" in str(error)
    graph = load(m, constants={"shape": np.array([6])})
    assert graph.inputs == ("x",)
    assert graph.types["y"].shape == (6,)
    assert "no input 'nobody'" in str(refusal(m, constants={"nobody": np.array([6])}))
    assert "but the input is i64[1]" in str(refusal(m, constants={"shape": np.array([6.0])}))


def test_several_mistakes_are_told_together_and_followers_are_not_blamed():
    error = refusal(
        model(
            [
                node("Transpose", ["x"], ["a"], perm=[0, 0], name="one"),
                node("Relu", ["a"], ["b"], name="innocent"),
                node("Concat", ["x", "x"], ["c"], axis=5, name="two"),
                node("Add", ["b", "c"], ["y"], name="also innocent"),
            ]
        )
    )
    assert [p.node for p in error.problems] == ["one", "two"]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node("MatMul", ["x", "x"], ["y"])], "inner dimensions differ"),
        ([node("Add", ["x", "nothing"], ["y"])], "which nothing computes"),
        ([node("Cast", ["x"], ["y"])], "attribute 'to' is missing"),
        ([node("Cast", ["x"], ["y"], to=TensorProto.STRING)], "STRING, which is not supported"),
        ([node("Cast", ["x"], ["y"], to=999)], "type 999"),
        ([node("Softmax", ["x"], ["y"], axis="one")], "wrong type"),
        ([node("Flatten", ["x"], ["y"], axis=7)], "outside its input"),
        ([node("And", ["x", "x"], ["y"])], "truth values"),
        ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], "does not fit"),
        ([node("Dropout", ["x"], ["z"])], "Nothing computes the output 'y'"),
    ],
)
def test_a_wrong_operation_is_named_with_its_reason(nodes, said):
    assert said in str(refusal(model(nodes)))


def test_windows_of_absurd_size_are_refused():
    big = node("MaxPool", ["x"], ["y"], kernel_shape=[1 << 40], pads=[1 << 40, 1 << 40])
    assert "too large" in str(refusal(model([big], inputs=(("x", F, [1, 1, 8]),))))


def test_a_function_that_calls_itself_ends():
    body = [helper.make_node("F", ["a"], ["b"], domain="own"), helper.make_node("F", ["b"], ["c"], domain="own")]
    function = helper.make_function("own", "F", ["a"], ["c"], body, [helper.make_opsetid("own", 1)])
    call = helper.make_node("F", ["x"], ["y"], name="call", domain="own")
    assert "nested more than" in str(refusal(model([call], functions=[function])))


def test_functions_that_multiply_end_at_the_limit_with_one_reason():
    functions = [
        helper.make_function(
            "d", "f0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 17)]
        )
    ]
    for i in range(1, 12):
        calls = [helper.make_node(f"f{i - 1}", [a], [b], domain="d") for a, b in ("xa", "ab", "bc", "cy")]
        functions.append(helper.make_function("d", f"f{i}", ["x"], ["y"], calls, [helper.make_opsetid("d", 1)]))
    bomb = model([helper.make_node("f11", ["x"], ["y"], domain="d")], functions=functions)
    with pytest.raises(ModelError, match="unrolls to more than 500 operations") as caught:
        load(bomb, limits=Limits(graph_nodes=500))
    assert not caught.value.problems


def test_a_function_of_the_model_is_lowered_in_its_callers_name():
    attribute = helper.make_node("LeakyRelu", ["b"], ["c"])
    attribute.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    body = [helper.make_node("Neg", ["a"], ["b"]), attribute]
    function = helper.make_function("own", "F", ["a"], ["c"], body, [helper.make_opsetid("", 17)], attributes=["slope"])
    call = helper.make_node("F", ["x"], ["y"], name="call", domain="own", slope=0.5)
    graph = load(model([call], functions=[function]))
    assert {n.source for n in graph.nodes} == {("call",)}


def test_unnamed_and_equal_names_become_unique_sources():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        node("Neg", ["a"], ["b"], name="n"),
        node("Neg", ["b"], ["y"], name="n"),
    ]
    assert [n.source for n in load(model(nodes)).nodes] == [("Relu_0",), ("n",), ("n.2",)]


def test_too_many_operations_are_refused():
    nodes = [node("Relu", [f"t{i}" if i else "x"], [f"t{i + 1}" if i < 40 else "y"], name=f"n{i}") for i in range(41)]
    assert "the limit is 30" in str(refusal(model(nodes), limits=Limits(model_nodes=30)))


def test_outputs_that_are_inputs_constants_or_twice_the_same_are_copied():
    weights = numpy_helper.from_array(np.ones(3, np.float32), "w")
    graph = load(
        model(
            [node("Identity", ["x"], ["y"]), node("Relu", ["x"], ["r"])],
            outputs=("y", "w", "r"),
            initializers=[weights],
        )
    )
    assert graph.outputs == ("y", "w", "r")
    made = {n.output for n in graph.nodes}
    assert {"y", "r"} <= made


def test_no_message_shows_python():
    for error in (refusal(b""), refusal(model([node("MatMul", ["x", "x"], ["y"])]))):
        assert not re.search(r"Traceback|Error\(|<class|0x[0-9a-f]{6}", str(error))


@pytest.mark.parametrize(
    ("kind", "inputs", "says"),
    [
        ("Gemm", ([2, 1], [7, 3]), "inner dimensions differ"),
        ("Gemm", ([2, 7], [1, 3]), "inner dimensions differ"),
        ("Gemm", ([2, 7], [7, 3], [12, 3]), "cannot be added"),
        ("Gemm", ([2, 7], [7, 3], [4]), "cannot be added"),
        ("Gemm", ([2, 7], [7, 3], [1, 2, 3]), "cannot be added"),
        ("Conv", ([1, 2, 5], [4, 2, 3], [7]), "bias"),
        ("Conv", ([1, 2, 5], [4, 2, 3], [4, 1]), "bias"),
        ("Clip", ([2, 3], [2, 3]), "a bound is one number"),
        ("Clip", ([2, 3], [], [2]), "a bound is one number"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_and_never_stretched(kind, inputs, says):
    names = [f"i{n}" for n in range(len(inputs))]
    given = [(name, F, shape) for name, shape in zip(names, inputs, strict=True)]
    assert says in str(refusal(model([node(kind, names, ["y"])], given)))
