"""Bands: the same numbers and the same work, with less live at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise, shape_for_units
from compiler.passes.bands import in_bands
from compiler.passes.live import live_bytes
from compiler.scheduling.build import build
from compiler.tiling import external
from tests.tiers import some


def images(layers, channels=3, side=24):
    """A small network of layers over an image: ("conv", filters, kernel, stride, dilation), ("pool",), ("add",), ("join",)."""
    rng = np.random.default_rng(1)
    nodes, weights = [], []
    value, width = "x", channels
    for n, (kind, *about) in enumerate(layers):
        out = f"v{n}"
        if kind == "conv":
            filters, kernel, stride, dilation = about
            weights.append(
                numpy_helper.from_array(
                    rng.standard_normal((filters, width, kernel, kernel)).astype(np.float32), f"w{n}"
                )
            )
            pad = dilation * (kernel // 2)
            nodes.append(
                helper.make_node(
                    "Conv", [value, f"w{n}"], [f"c{n}"], pads=[pad] * 4, strides=[stride] * 2, dilations=[dilation] * 2
                )
            )
            nodes.append(helper.make_node("Relu", [f"c{n}"], [out]))
            width = filters
        elif kind == "pool":
            nodes.append(helper.make_node("MaxPool", [value], [out], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
        elif kind == "add":
            nodes.append(helper.make_node("Sigmoid", [value], [f"s{n}"]))
            nodes.append(helper.make_node("Mul", [value, f"s{n}"], [out]))
        else:
            nodes.append(helper.make_node("Neg", [value], [f"s{n}"]))
            nodes.append(helper.make_node("Concat", [value, f"s{n}"], [out], axis=1))
            width *= 2
        value = out
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, side, side])
    y = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
    return helper.make_model(
        helper.make_graph(nodes, "images", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )


CONV = st.tuples(
    st.just("conv"), st.integers(1, 6), st.sampled_from([1, 3, 5]), st.sampled_from([1, 1, 2]), st.integers(1, 2)
)
LAYER = st.one_of(CONV, CONV, st.just(("pool",)), st.just(("add",)), st.just(("join",)))


def work(graph):
    return sum(n.operations for n in graph.nodes if isinstance(n, Compute))


@settings(max_examples=some(40), deadline=None)
@given(st.lists(LAYER, min_size=2, max_size=5), st.integers(30, 95))
def test_bands_keep_every_bit_and_every_operation(layers, share):
    graph = shape_for_units(optimise(compiler.load(images(layers))))
    room = max(live_bytes(graph)) * share // 100
    banded = in_bands(graph, room)
    if banded is None:
        return
    verify(banded)
    assert max(live_bytes(banded)) <= room
    assert work(banded) == work(graph)
    x = np.random.default_rng(2).standard_normal((1, 3, 24, 24)).astype(np.float32)
    for name, value in run(graph, {"x": x}).items():
        assert run(banded, {"x": x})[name].tobytes() == value.tobytes()


WIDE = [("conv", 24, 3, 1, 1), ("conv", 24, 3, 1, 1), ("pool",), ("conv", 4, 3, 2, 1)]


def test_bands_are_found_where_a_wide_layer_lies_between_small_ones():
    graph = shape_for_units(optimise(compiler.load(images(WIDE))))
    whole = max(live_bytes(graph))
    banded = in_bands(graph, whole // 2)
    assert banded is not None
    assert max(live_bytes(banded)) <= whole // 2
    assert in_bands(graph, 1000) is None  # the input alone is larger


@pytest.mark.parametrize("share", [100, 60])
def test_a_schedule_in_turns_keeps_no_more_live_than_the_graphs_order(share):
    target = targets.load("lpu")
    graph = shape_for_units(optimise(compiler.load(images(WIDE, side=64))))
    cut = in_bands(graph, max(live_bytes(graph)) * share // 100)
    assert cut is not None
    free, turns = (
        build(g, target, lambda _: None, external.RESIDENT, 1, in_turns=t) for g, t in ((graph, False), (cut, True))
    )
    assert turns.arena_bound < free.arena_bound
    assert turns.latency > free.latency
