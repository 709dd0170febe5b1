"""The bound of look-ups: a fetch for each place that data names, one for those that are names of one index."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.lookups import fetches
from compiler.ir.graph import Gather
from compiler.passes import optimise
from tests.tiers import some


def model(table, places, wanted, axis=0, expand=None):
    """A look-up in an input ``table`` at an input ``places``, which may be expanded first."""
    nodes, index = [], "at"
    if expand:
        shape = helper.make_tensor("shape", TensorProto.INT64, [len(expand)], expand)
        nodes.append(helper.make_node("Expand", ["at", "shape"], ["wide"]))
        index = "wide"
    nodes.append(helper.make_node("Gather", ["x", index], ["y"], axis=axis))
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, table),
        helper.make_tensor_value_info("at", TensorProto.INT64, places),
    ]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, wanted)]
    graph = helper.make_graph(nodes, "net", ports, out, [shape] if expand else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def counted(data):
    graph = optimise(compiler.load(data))
    (node,) = (n for n in graph.nodes if isinstance(n, Gather))
    return fetches(node, graph, node.loops)


def test_rows_come_with_one_fetch():
    assert counted(model([100, 8], [30], [30, 8])) == 30


def test_columns_are_fetched_apart():
    assert counted(model([8, 100], [30], [8, 30], axis=1)) == 30  # one instruction for all rows may fetch along them


def test_an_expanded_index_counts_once():
    assert counted(model([100, 8], [1, 30], [4, 30, 8], expand=[4, 30])) == 30


def test_constant_places_count_nothing():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [9, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])
    at = helper.make_tensor("at", TensorProto.INT64, [3], [7, 0, 2])
    graph = helper.make_graph([helper.make_node("Gather", ["x", "at"], ["y"])], "net", [x], [y], [at])
    made = compiler.load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )
    assert [fetches(n, made, n.loops) for n in made.nodes if isinstance(n, Gather)] in ([], [0])


@settings(max_examples=some(40))
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=3), st.lists(st.integers(1, 8), min_size=1, max_size=2),
    st.data(), st.sampled_from(["lpu", "edge"]), st.booleans(),
)  # fmt: skip  # one kind of case to a line
def test_no_program_is_below_its_bound(table, places, data, target, wide):
    """Nor is one that looks up along any axis, with indices that are expanded or not; and results are NumPy's."""
    axis = data.draw(st.integers(0, len(table) - 1))
    expand = [3, *places] if wide else None
    own = expand or places
    wanted = [*table[:axis], *own, *table[axis + 1 :]]
    graph, processor = compiler.load(model(table, places, wanted, axis, expand)), targets.resolve(target)
    program = compiler.compile(graph, processor)
    least, most = bounds(optimise(graph), processor), program.resources
    assert most.cycles >= least.latency
    assert most.interval >= least.interval
    rng = np.random.default_rng(0)
    x = rng.standard_normal(table).astype(np.float32)
    at = rng.integers(0, table[axis], places)
    found, _ = compiler.simulate(program.to_bytes(), {"x": x, "at": at})
    assert np.array_equal(found["y"], np.take(x, np.broadcast_to(at, own), axis=axis))
