"""Strips of rows behind attention: the same numbers and the same work, sooner."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.driver import quiet
from compiler.ir.graph import Compute, Gather, Join, Part, View
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise, shape_for_units
from compiler.passes import row_tiling as cutting
from compiler.passes.row_tiling import (
    LEAVING,
    MOST,
    ROWS,
    STRIPS,
    _rows,
    _shares,
    in_strip,
    strip_of,
    tile_rows,
)
from compiler.scheduling import build as building
from tests.compiler.checks import check_program
from tests.tiers import some

LPU = targets.load("lpu")
WORDS = 30


def transformer(tokens, heads, depth, layers, masked=False, wide=0, words=0):
    """Layers of attention with a dense layer and a normalisation behind each, of ``heads`` heads of ``depth``; ``wide``: and
    two dense layers with so many times the columns between them; ``words``: rows are looked up in a table of so many."""
    rng, width = np.random.default_rng(3), heads * depth
    nodes, weights = [], []

    def constant(name, array):
        weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(op, inputs, out, **attributes):
        nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def dense(value, out, rows=width, columns=width):
        w = constant(f"{out}.w", (rng.standard_normal((rows, columns)) / 8).astype(np.float32))
        return add("MatMul", [value, w], out)

    split = constant("split", np.array([1, tokens, heads, depth], np.int64))
    whole = constant("whole", np.array([1, tokens, width], np.int64))
    ones = constant("ones", np.ones(width, np.float32))
    x = "x"
    if words:
        tables = [constant(f"table{n}", rng.standard_normal((words, width)).astype(np.float32)) for n in range(2)]
        x = add("Add", [add("Gather", [table, "x"], f"in_{table}", axis=0) for table in tables], "looked")
        x = add("LayerNormalization", [x, ones], "begun", axis=-1)
    for n in range(layers):
        parts = []
        for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            made = add("Reshape", [dense(x, f"{name}{n}"), split], f"{name}s{n}")
            parts.append(add("Transpose", [made], f"{name}t{n}", perm=order))
        scores = add("MatMul", parts[:2], f"scores{n}")
        scores = add("Add", [scores, "mask"], f"masked{n}") if masked else scores
        summed = add("MatMul", [add("Softmax", [scores], f"soft{n}", axis=-1), parts[2]], f"summed{n}")
        back = add("Transpose", [summed], f"back{n}", perm=[0, 2, 1, 3])
        y = dense(add("Reshape", [back, whole], f"flat{n}"), f"dense{n}")
        x = add("LayerNormalization", [add("Add", [x, y], f"sum{n}"), ones], f"x{n}", axis=-1)
        if wide:
            middle = add("Relu", [dense(x, f"up{n}", width, wide * width)], f"relu{n}")
            y = dense(middle, f"down{n}", wide * width, width)
            x = add("LayerNormalization", [add("Add", [x, y], f"added{n}"), ones], f"z{n}", axis=-1)
    kind, shape = (TensorProto.INT64, [1, tokens]) if words else (TensorProto.FLOAT, [1, tokens, width])
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    if masked:
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, 1, tokens, tokens]))
    output = helper.make_tensor_value_info(x, TensorProto.FLOAT, None)
    made = helper.make_graph(nodes, "transformer", inputs, [output], weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])


def graph_of(*about, **options):
    return shape_for_units(optimise(compiler.load(transformer(*about, **options).SerializeToString())))


def feeds(graph):
    rng = np.random.default_rng(5)
    return {
        name: rng.standard_normal(t.shape).astype(np.float32) if t.dtype.is_float else rng.integers(0, WORDS, t.shape)
        for name, t in ((name, graph.types[name]) for name in graph.inputs)
    }


def work(graph):
    return sum(n.operations for n in graph.nodes if isinstance(n, Compute))


def strips(graph):
    return [len(n.parts) for n in graph.nodes if isinstance(n, Join) and n.name.endswith("~strips")]


@settings(max_examples=some(12), deadline=None)
@given(
    st.integers(2 * ROWS, 5 * ROWS),
    st.integers(2, 4),
    st.sampled_from([16, 24]),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from([0, WORDS]),
)
def test_strips_compute_the_same_with_the_same_work(tokens, heads, depth, layers, masked, words):
    graph = graph_of(tokens, heads, depth, layers, masked=masked, words=words)
    with patch.object(cutting, "CYCLES", 1):
        made = verify(tile_rows(graph, LPU))
    assert len(strips(made)) >= layers
    fed = feeds(graph)
    want, got = run(graph, fed, {}), run(made, fed, {})
    assert all(np.array_equal(want[key], got[key]) for key in want)
    assert work(made) == work(graph)


def test_programs_of_strips_are_exact():
    graph = graph_of(67, 4, 24, 2, masked=True)
    assert strips(tile_rows(graph, LPU))
    check_program(graph, "lpu", [feeds(graph)], objective="latency")


def test_rows_that_are_looked_up_go_in_strips_to_the_first_product_that_needs_all():
    graph = graph_of(6 * 32, 4, 24, 1, masked=True, words=WORDS)
    made = verify(tile_rows(graph, LPU))
    looked = [n for n in made.nodes if isinstance(n, Gather)]
    assert all(in_strip(n) for n in looked)
    for table in {n.data.value for n in looked}:
        cut = [n.loops[1] for n in looked if n.data.value == table]
        assert len(cut) >= STRIPS
        assert [sum(cut), cut[0]] == [6 * 32, cut[1]]
    assert len(looked) == 2 * len(cut)
    check_program(graph, "lpu", [feeds(graph)], objective="latency")


@given(st.integers(3 * ROWS, 500), st.integers(2, 6), st.booleans(), st.booleans())
def test_strips_are_all_rows_and_the_first_to_leave_are_few(size, count, early, waiting):
    shares = _shares(count, early=early, waiting=waiting)
    cuts = [_rows(size, strip, shares) for strip in range(count)]
    assert [start for start, _ in cuts] == [0, *(end for _, end in cuts[:-1])]
    assert cuts[-1][1] == size
    lengths = [end - start for start, end in cuts]
    if early:
        assert lengths[0] <= min(lengths[1:])
        assert lengths[-1] == max(lengths)
        assert count == STRIPS or abs(2 * lengths[0] - lengths[1]) <= 2
    elif waiting and count == STRIPS:
        assert lengths[0] > lengths[1]
    else:
        assert max(lengths) - min(lengths) <= 1


def test_a_first_strip_is_longer_where_its_work_hides_behind_loads():
    """Few rows by wide weights wait for loads, many do not."""
    rows = {}
    for tokens in (5 * ROWS, 12 * ROWS):
        made = tile_rows(graph_of(tokens, 8, 32, 2, wide=4), LPU)
        first = next(n for n in made.nodes if isinstance(n, Join) and n.name.endswith("~strips"))
        rows[tokens] = [made.types[part].shape[first.axis] for part in first.parts]
    few, many = rows.values()
    assert few[0] > few[-1]
    assert max(many) - min(many) <= 1


def test_a_stretch_reaches_to_the_next_product_that_needs_all_rows():
    made = tile_rows(graph_of(4 * 32, 4, 24, 2), LPU)
    assert {MOST, LEAVING} == set(strips(made))
    cut = {n.name.split("~")[0] for n in made.nodes if "~strip" in n.name}
    assert any("LayerNormalization" in name for name in cut)


def test_the_first_rows_leave_while_the_last_are_computed(monkeypatch):
    graph = graph_of(4 * 32, 4, 24, 2)
    soon = building.build(graph, LPU, quiet, objective="latency")
    monkeypatch.setattr(building, "tile_rows", lambda graph, _: graph)
    whole = building.build(graph, LPU, quiet, objective="latency")
    assert soon.latency < 0.95 * whole.latency


def classifier(rows, classes):
    """A dense layer over rows and its softmax, so wide that largest elements and sums are found in parts."""
    w = numpy_helper.from_array((np.random.default_rng(7).standard_normal((8, classes)) / 4).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_model(
        helper.make_graph(nodes, "classifier", [x], [y], [w]), opset_imports=[helper.make_opsetid("", 17)]
    )
    return shape_for_units(optimise(compiler.load(made.SerializeToString())))


def test_first_rows_of_a_wide_classifier_leave_while_the_last_are_computed(monkeypatch):
    graph = classifier(2 * ROWS, 4500)
    made = verify(tile_rows(graph, LPU))
    assert STRIPS in strips(made)
    assert any(isinstance(n, Join) and "~strip" in n.output for n in made.nodes)
    fed = feeds(graph)
    assert np.array_equal(run(graph, fed, {})["y"], run(made, fed, {})["y"])
    check_program(graph, "lpu", [fed], objective="latency")
    soon = building.build(graph, LPU, quiet, objective="latency")
    monkeypatch.setattr(building, "tile_rows", lambda graph, _: graph)
    whole = building.build(graph, LPU, quiet, objective="latency")
    assert whole.latency - soon.latency > 100


def test_narrow_classifiers_stay_whole():
    graph = classifier(2 * ROWS, 100)  # the link has them before strips would begin
    assert tile_rows(graph, LPU).nodes == graph.nodes


@pytest.mark.parametrize(
    ("tokens", "why"), [(ROWS, "rows are few"), (2 * ROWS, "weights would be loaded for too little")]
)
def test_short_stretches_stay_whole(tokens, why):
    graph = graph_of(tokens, 2, 160, 1)
    assert tile_rows(graph, LPU).nodes == graph.nodes, why


def test_strips_a_stage_apart_share_the_units(monkeypatch):
    graph = graph_of(4 * 16, 8, 32, 2, wide=4)
    apart = building.build(graph, LPU, quiet, objective="latency")
    monkeypatch.setattr(building, "strip_of", lambda _: 0)
    together = building.build(graph, LPU, quiet, objective="latency")
    assert apart.latency < together.latency


def test_strips_of_different_lengths_read_the_same_weights():
    graph = graph_of(67, 8, 32, 2, wide=4)
    apart = building.build(graph, LPU, quiet, objective="latency")
    rows = {n.loops[1] for n in apart.graph.nodes if isinstance(n, Compute) and n.is_contraction and in_strip(n)}
    assert len(rows) > 1
    stored = [b.name.split(":")[0] for b in apart.space.buffers.values() if b.kind == "constant"]
    assert [stored.count(f"{name}0.w") for name in ("dense", "up", "down")] == [1, 1, 1]


def test_an_operation_tells_which_strip_it_is_whatever_it_is_called():
    parts = {
        None: 0,
        Part("strip", 0, "a"): 0,
        Part("strip", 12, "a"): 12,
        Part("group", 3, "a"): 3,
        Part("band", 2, "a"): 0,
    }
    for name in ("a", "a~strip7", "a~group2"):
        nodes = {part: View(name, name, ("a",), part=part) for part in parts}
        assert {part: strip_of(node) for part, node in nodes.items()} == parts
        assert [part.kind for part, node in nodes.items() if in_strip(node)] == ["strip", "strip", "group"]


@pytest.mark.parametrize("tokens", [24, 25, 30])
def test_strips_of_a_contraction_are_on_one_kind_of_unit(tokens):
    with patch.object(cutting, "CYCLES", 1):
        plan = building.build(graph_of(tokens, 2, 8, 1), LPU, quiet, objective="latency")
    nodes = {n.output: n for n in plan.graph.nodes}
    made = [(nodes[t.output], t.unit[0]) for t in plan.tiles if t.unit[0] in ("matrix", "vector")]
    units = {(node.part.whole if node.part else node.output, unit) for node, unit in made}
    assert any(in_strip(node) for node, _ in made)
    assert len({name for name, _ in units}) == len(units)
