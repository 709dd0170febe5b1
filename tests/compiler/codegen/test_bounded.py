"""Outputs whose length the data decides: right for every input, cut to their length, priced at their largest."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import ModelError
from tests.tiers import some

FEW = settings(max_examples=some(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def model(nodes, inputs, outputs, opset=21):
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL, "h": TensorProto.INT32}
    made = [helper.make_tensor_value_info(n, kinds[k], shape) for n, (k, shape) in inputs.items()]
    out = [helper.make_tensor_value_info(n, kinds[k], None) for n, k in outputs.items()]
    graph = helper.make_graph(nodes, "g", made, out)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def compiled(nodes, inputs, outputs, constants=None):
    return compiler.compile(compiler.load(model(nodes, inputs, outputs), constants=constants)).to_bytes()


NON_ZERO = compiled([helper.make_node("NonZero", ["x"], ["y"])], {"x": ("f", [3, 4])}, {"y": "i"})
COMPRESS = compiled(
    [helper.make_node("Compress", ["x", "c"], ["y"], axis=1)], {"x": ("f", [2, 5]), "c": ("b", [4])}, {"y": "f"}
)
UNIQUE = {
    (ordered, axis): compiled(
        [
            helper.make_node(
                "Unique", ["x"], ["y", "i", "v", "c"], sorted=ordered, **({} if axis is None else {"axis": axis})
            )
        ],
        {"x": ("h" if axis is None else "f", [9] if axis is None else [4, 3])},
        {"y": "h" if axis is None else "f", "i": "i", "v": "i", "c": "i"},
    )
    for ordered in (0, 1)
    for axis in (None, 0, 1)
}


@FEW
@given(st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan")]), min_size=12, max_size=12))
def test_places_of_what_is_not_zero(values):
    x = np.array(values, np.float32).reshape(3, 4)
    found, counters = compiler.simulate(NON_ZERO, {"x": x})
    expected = np.array(np.nonzero(x))
    assert found["y"].shape == expected.shape
    assert np.array_equal(found["y"], expected)
    assert found["y.length"] == expected.shape[1]
    assert not counters.exact
    assert "'y'" in counters.reason


def test_what_a_data_dependent_size_costs_is_the_same_for_every_input():
    full = compiler.simulate(NON_ZERO, {"x": np.ones((3, 4), np.float32)})[1]
    assert compiler.simulate(NON_ZERO, {"x": np.zeros((3, 4), np.float32)})[1] == full


@FEW
@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_columns_that_a_condition_keeps(condition):
    x = np.arange(10, dtype=np.float32).reshape(2, 5) + 1
    found, _ = compiler.simulate(COMPRESS, {"x": x, "c": np.array(condition)})
    assert np.array_equal(found["y"], np.compress(condition, x, axis=1))


@FEW
@given(
    st.sampled_from([0, 1]),
    st.sampled_from([None, 0, 1]),
    st.lists(st.sampled_from([0, 1, -1, 7, -(2**31), 2**31 - 1]), min_size=12, max_size=12),
)
def test_elements_or_rows_that_differ(ordered, axis, values):
    x = np.array(values[:9], np.int32) if axis is None else np.array(values, np.float32).reshape(4, 3)
    found, _ = compiler.simulate(UNIQUE[ordered, axis], {"x": x})
    y, first, where, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    where = where.reshape(-1)
    if not ordered:
        order = np.argsort(first)
        where, first, count = np.argsort(order)[where], first[order], count[order]
        y = np.take(y, order, axis=axis or 0)
    for name, expected in (("y", y), ("i", first), ("v", where), ("c", count)):
        assert np.array_equal(found[name], expected), name


@FEW
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(0, 1),
    st.sampled_from(["float32", "int32", "uint32", "int64"]),
)
def test_the_largest_and_smallest_stand_in_order_with_equal_ones_as_they_came(seed, k, largest, dtype):
    x = np.random.default_rng(seed).integers(-3, 4, (2, 40)).astype(dtype)
    kind = {
        "float32": TensorProto.FLOAT,
        "int32": TensorProto.INT32,
        "uint32": TensorProto.UINT32,
        "int64": TensorProto.INT64,
    }
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], largest=largest)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", kind[dtype], [2, 40]),
            helper.make_tensor_value_info("k", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("v", kind[dtype], None),
            helper.make_tensor_value_info("i", TensorProto.INT64, None),
        ],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    from compiler.ir.interpreter import run

    found = run(compiler.load(made, constants={"k": np.array([k])}), {"x": x})
    wide = x.astype(object)
    places = np.array(
        [sorted(range(40), key=lambda j, row=row: (-row[j] if largest else row[j], j))[:k] for row in wide]
    )
    assert np.array_equal(found["i"], places)
    assert np.array_equal(found["v"], np.take_along_axis(x, places, 1))


def test_what_follows_such_a_value_follows_its_length():
    nodes = [
        helper.make_node("NonZero", ["x"], ["p"]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["w", "t"], ["g"]),
        helper.make_node("Mul", ["g", "two"], ["m"]),
    ]
    made = model(nodes, {"x": ("f", [3, 4]), "w": ("f", [3, 4]), "two": ("f", [])}, {"m": "f"})
    program = compiler.compile(compiler.load(made))
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    for x in (np.eye(3, 4, dtype=np.float32), np.zeros((3, 4), np.float32)):
        found, _ = compiler.simulate(program.to_bytes(), {"x": x, "w": w, "two": np.float32(2)})
        assert np.array_equal(found["m"], w[np.nonzero(x)] * 2)


@pytest.mark.parametrize("how", ["slice", "gather", "split"])
@pytest.mark.parametrize("seed", range(2))
def test_the_columns_of_such_a_value_choose_what_they_name(how, seed):
    """What detectors do behind a suppression: one column of its result says which boxes are read."""
    column = {
        "slice": [
            helper.make_node("Slice", ["k", "one", "two", "one"], ["c"]),
            helper.make_node("Squeeze", ["c", "one"], ["p"]),
        ],
        "gather": [helper.make_node("Gather", ["k", "first"], ["p"], axis=1)],
        "split": [
            helper.make_node("Split", ["k"], ["c0", "c"], axis=1, num_outputs=2),
            helper.make_node("Squeeze", ["c", "one"], ["p"]),
        ],
    }[how]
    constants = {"one": [1], "two": [2], "first": 1}
    nodes = [
        helper.make_node("Constant", [], [n], value=numpy_helper.from_array(np.array(v))) for n, v in constants.items()
    ]
    nodes += [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Transpose", ["n"], ["k"], perm=[1, 0])]
    nodes += [*column, helper.make_node("Gather", ["w", "p"], ["y"])]
    program = compiled(nodes, {"x": ("f", [3, 4]), "w": ("f", [4, 2])}, {"y": "f", "p": "i"})
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((4, 2)).astype(np.float32)
    for x in (rng.integers(0, 2, (3, 4)).astype(np.float32), np.zeros((3, 4), np.float32), np.ones((3, 4), np.float32)):
        found, _ = compiler.simulate(program, {"x": x, "w": w})
        assert np.array_equal(found["p"], np.nonzero(x)[1])
        assert np.array_equal(found["y"], w[np.nonzero(x)[1]])


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Gather", ["n", "first"], ["y"], axis=1),
        helper.make_node("Split", ["n"], ["y", "z"], axis=1, num_outputs=2),
        helper.make_node("Slice", ["n", "one", "two", "one"], ["y"]),
    ],
)
def test_a_part_of_what_the_data_decides_the_size_of_is_refused(node):
    constants = {"one": [1], "two": [2], "first": 1}
    nodes = [
        helper.make_node("Constant", [], [n], value=numpy_helper.from_array(np.array(v))) for n, v in constants.items()
    ]
    nodes += [helper.make_node("NonZero", ["x"], ["n"]), node]
    with pytest.raises(ModelError, match="a part of what the data decides the size of"):
        compiler.load(model(nodes, {"x": ("f", [3, 4])}, {"y": "i"}))


@pytest.mark.parametrize("kind", ["ReduceSum", "Shape", "Softmax"])
def test_an_operator_that_cannot_follow_a_length_is_refused(kind):
    nodes = [helper.make_node("NonZero", ["x"], ["p"]), helper.make_node("Cast", ["p"], ["q"], to=TensorProto.FLOAT)]
    nodes.append(helper.make_node(kind, ["q"], ["y"]))
    with pytest.raises(ModelError, match="depends on the data"):
        compiler.load(model(nodes, {"x": ("f", [3])}, {"y": "f"}))


@pytest.mark.parametrize("seed", range(3))
def test_boxes_that_overlap_a_better_one_go(seed):
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(seed)
    corner = rng.random((2, 12, 2)).astype(np.float32)
    boxes = np.concatenate((corner, corner + rng.random((2, 12, 2)).astype(np.float32) * 0.6), 2)
    scores = np.round(rng.random((2, 2, 12)).astype(np.float32), 1)  # with ties
    node = helper.make_node("NonMaxSuppression", ["b", "s", "n", "i", "t"], ["y"])
    made = model(
        [node],
        {"b": ("f", [2, 12, 4]), "s": ("f", [2, 2, 12]), "n": ("i", [1]), "i": ("f", [1]), "t": ("f", [1])},
        {"y": "i"},
    )
    given = {
        "b": boxes,
        "s": scores,
        "n": np.array([5]),
        "i": np.array([0.3], np.float32),
        "t": np.array([0.35], np.float32),
    }
    expected = ReferenceEvaluator(made).run(None, given)[0]
    graph = compiler.load(made, constants={"n": given.pop("n")})
    found, _ = compiler.simulate(compiler.compile(graph).to_bytes(), given)
    assert found["y"].tolist() == expected.tolist()
