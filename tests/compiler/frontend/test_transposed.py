"""Transposed convolutions: phases that take as many taps each are one contraction, the others are interleaved."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import compiler
from compiler.ir.graph import Compute, Join
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise
from tests.compiler.odd.draft import by_runtime, model
from tests.tiers import some


def built(feeds, constants, **attributes):
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    data = model([node], feeds, constants, ["y"], 17)
    return data, optimise(compiler.load(data), check=lambda graph: (verify(graph), graph)[1])


@settings(max_examples=some(60), deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=2),
    groups=st.integers(1, 3),
    channels=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    cut=st.integers(0, 1),
    dilation=st.integers(1, 2),
)
def test_every_phase_gives_what_the_runtime_gives(sizes, groups, channels, cut, dilation):
    rng = np.random.default_rng(0)
    image, strides, repeats = zip(*sizes, strict=True)
    kernel = [s * r for s, r in zip(strides, repeats, strict=True)]
    feeds = {"x": rng.standard_normal((2, groups * channels[0], *image)).astype("f4")}
    constants = {
        "w": rng.standard_normal((groups * channels[0], channels[1], *kernel)).astype("f4"),
        "b": rng.standard_normal(groups * channels[1]).astype("f4"),
    }
    last = [s * (n - 1) + (k - 1) * dilation + 1 for n, s, k in zip(image, strides, kernel, strict=True)]
    cut = cut if min(last) > 1 else 0
    pads = [cut] * len(image) + [0] * len(image)
    given_ = {"strides": strides, "group": groups, "pads": pads, "dilations": [dilation] * len(image)}
    data, graph = built(feeds, constants, **given_)
    wanted = by_runtime(data, ["y"], feeds)[0]
    np.testing.assert_allclose(run(graph, feeds)["y"], wanted, rtol=1e-4, atol=1e-5)
    if not cut and dilation == 1:
        assert not any(isinstance(n, Join) for n in graph.nodes)
        assert sum(isinstance(n, Compute) for n in graph.nodes) == 1  # with its bias


def test_phases_that_take_more_taps_than_others_are_interleaved():
    feeds = {"x": np.ones((1, 1, 4), np.float32)}
    constants = {"w": np.ones((1, 1, 3), np.float32), "b": np.zeros(1, np.float32)}
    data, graph = built(feeds, constants, strides=[2])
    assert any(isinstance(n, Join) for n in graph.nodes)
    np.testing.assert_allclose(run(graph, feeds)["y"], by_runtime(data, ["y"], feeds)[0])
