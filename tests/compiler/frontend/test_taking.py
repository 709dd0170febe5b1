"""Known places along an axis: patterns that an affine access can express are views, the rest gathers, and all are right."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from compiler.ir.graph import Gather
from compiler.ir.interpreter import run

DATA = np.arange(3 * 16 * 2, dtype=np.float32).reshape(3, 16, 2)
ends = st.integers(0, 3)
counts = st.integers(1, 4)
regular = st.builds(
    lambda first, step, outer, again, inner: first + step * np.arange(outer)[:, None] + again * np.arange(inner),
    ends,
    ends,
    counts,
    st.integers(0, 1),
    counts,
)


def taken(places):
    """A graph that takes ``places`` of the middle axis, and what NumPy takes."""
    node = helper.make_node("Gather", ["x", "places"], ["y"], axis=1)
    graph = helper.make_graph(
        [node],
        "taking",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, DATA.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("places", TensorProto.INT64, places.shape, places.tolist())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return compiler.load(model.SerializeToString()), DATA[:, places]


@given(st.one_of(regular.map(np.ravel), st.lists(st.integers(0, 15), min_size=1, max_size=9).map(np.array)))
@settings(max_examples=60, deadline=None)
def test_known_places_are_taken_as_they_are_named(places):
    graph, expected = taken(places)
    assert np.array_equal(run(graph, {"x": DATA})["y"], expected)


@given(regular.map(np.ravel))
@settings(max_examples=40, deadline=None)
def test_no_gather_where_runs_are_evenly_spaced(places):
    graph, _ = taken(places)
    assert not any(isinstance(node, Gather) for node in graph.nodes)
