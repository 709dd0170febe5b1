"""Outputs leave, and look-ups read, in whole lines: from a copy in another order where that takes less."""

from collections import Counter

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.driver import quiet
from compiler.passes import optimise, shape_for_units
from compiler.scheduling.build import build
from compiler.tiling import external
from tests.compiler.checks import check_program
from tests.tiers import some

LPU = targets.load("lpu")


def graph_of(nodes, shapes, result, weights):
    """A model's graph as the units take it; ``shapes`` and ``weights`` by name."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, result)
    rng = np.random.default_rng(0)
    constants = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) if isinstance(s, tuple) else s, n)
        for n, s in weights.items()
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output], constants), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.checker.check_model(model)
    return shape_for_units(optimise(compiler.load(model.SerializeToString())))


def beats_of(plan):
    """Beats by unit and source operation."""
    found = Counter()
    for tile in plan.tiles:
        found[tile.unit[0], plan.names[tile.instruction.source].split("/")[0]] += tile.beats
    return found


def turned(channels, side, *, mapped):
    """Pixels with their channels side by side that leave as planes, perhaps behind a map."""
    nodes = [helper.make_node("Transpose", ["x"], ["t" if mapped else "y"], name="turn", perm=[0, 3, 1, 2])]
    nodes += [helper.make_node("Sigmoid", ["t"], ["y"], name="map")] if mapped else []
    return graph_of(nodes, {"x": [1, side, side, channels]}, [1, channels, side, side], {})


def enlarged(channels, side):
    """A transposed convolution of windows that overlap, whose phases are woven together."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", strides=[2, 2], pads=[1] * 4)
    shapes = {"x": [1, 16, side, side]}
    return graph_of([node], shapes, [1, channels, 2 * side, 2 * side], {"w": (16, channels, 4, 4)})


def looked_up(channels, side):
    """An image that is enlarged along its rows, at places that are not even."""
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="pick", axis=3)
    places = np.random.default_rng(1).integers(0, side, 4 * side)
    return graph_of([node], {"x": [1, channels, side, side]}, [1, channels, side, 4 * side], {"i": places})


def feeds_of(graph):
    rng = np.random.default_rng(3)
    return {n: rng.standard_normal(graph.types[n].shape).astype(np.float32) for n in graph.inputs}


@pytest.mark.parametrize(
    "graph", [turned(24, 40, mapped=False), turned(24, 40, mapped=True), turned(40, 30, mapped=True), enlarged(19, 28)]
)
def test_outputs_leave_in_whole_lines(graph):
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    (name,) = graph.outputs
    found = beats_of(plan)
    sent, pieces = found["link_out", f"output {name}"], sum(tile.unit[0] == "link_out" for tile in plan.tiles)
    assert sent <= graph.types[name].bytes // LPU.link_out.bytes_per_cycle + pieces
    assert 0 < found["move", f"output {name}"] < sent


def test_a_few_narrow_lines_leave_as_they_lie():
    """The way over the mover would be longer."""
    graph = turned(3, 6, mapped=True)
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    assert not any(unit == "move" for unit, _ in beats_of(plan))


def test_an_output_that_lies_in_its_order_is_not_copied():
    graph = graph_of([helper.make_node("Sigmoid", ["x"], ["y"])], {"x": [1, 19, 40, 40]}, [1, 19, 40, 40], {})
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    assert not any(unit == "move" for unit, _ in beats_of(plan))


@pytest.mark.parametrize(("channels", "side"), [(16, 40), (3, 80), (40, 24)])
def test_a_lookup_along_lines_brings_lines(channels, side):
    """The data are turned first, so that an address brings a line; element by element it would be an address for each."""
    graph = looked_up(channels, side)
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    addresses = graph.types[graph.outputs[0]].elements // LPU.move.ports["a"]
    assert sum(n for (unit, _), n in beats_of(plan).items() if unit == "move") * 4 < addresses


@settings(max_examples=some(12), deadline=None)
@given(
    st.permutations(range(4)), st.lists(st.integers(1, 12), min_size=4, max_size=4), st.sampled_from(["lpu", "edge"])
)
def test_what_is_turned_and_looked_up_is_the_same(order, shape, target):
    rng = np.random.default_rng(sum(shape))
    turned = [shape[i] for i in order]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="turn", perm=list(order)),
        helper.make_node("Gather", ["t", "i"], ["y"], name="pick", axis=int(rng.integers(4))),
    ]
    axis = nodes[1].attribute[0].i
    places = rng.integers(0, turned[axis], 70)
    graph = graph_of(nodes, {"x": shape}, [70 if j == axis else n for j, n in enumerate(turned)], {"i": places})
    check_program(graph, target, [feeds_of(graph)])


def test_no_copy_is_made_where_memory_is_short(monkeypatch):
    """Operations go in turns where memory is short; a value that would take much of it is sent as it lies."""
    graph = turned(24, 40, mapped=True)
    short = build(graph, LPU, quiet, external.RESIDENT, in_turns=True)
    assert not beats_of(short)["move", "output y"]
    monkeypatch.setattr("compiler.tiling.tiler.COPIED", LPU.memory_bytes // graph.types["y"].bytes + 1)
    plan, _ = check_program(graph, "lpu", [feeds_of(graph)])
    assert not beats_of(plan)["move", "output y"]
