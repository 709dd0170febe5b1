"""Operators that optimisers fuse give what ONNX Runtime gives."""

import numpy as np
import pytest
from onnx import helper

from tests.compiler.precision.runtime import FLOAT, INT32, check

RNG = np.random.default_rng(3)
f4 = np.float32


def floats(*shape):
    return RNG.standard_normal(shape).astype(f4)


def node(kind, names, outputs=("y",), **attributes):
    return helper.make_node(kind, list(names), list(outputs), domain="com.microsoft", **attributes)


def test_activations_with_their_bias():
    feeds, constants = {"x": floats(2, 3, 8)}, {"b": floats(8)}
    for kind, names in (("Gelu", ["x"]), ("BiasGelu", ["x", "b"]), ("FastGelu", ["x", "b"]), ("QuickGelu", ["x"])):
        check([node(kind, names)], feeds, constants, {"y": FLOAT}, relative=1e-3)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_of_turned_matrices(a, b):
    feeds = {"a": floats(2, *((5, 3) if a else (3, 5))), "b": floats(2, *((4, 5) if b else (5, 4)))}
    check([node("FusedMatMul", ["a", "b"], transA=a, transB=b, alpha=0.5)], feeds, {}, {"y": FLOAT})


@pytest.mark.parametrize(("kind", "names"), [
    ("SkipLayerNormalization", ["x", "s", "g", "b", "c"]), ("SkipLayerNormalization", ["x", "s", "g", "b"]),
    ("SkipSimplifiedLayerNormalization", ["x", "s", "g", "c"]),
])  # fmt: skip
def test_normalised_sums(kind, names):
    constants = {name: floats(8) for name in ("g", "b", "c")}
    feeds = {"x": floats(2, 3, 8), "s": floats(2, 3, 8)}
    check([node(kind, names, ("y", "", "", "total"), epsilon=1e-5)], feeds, constants, {"y": FLOAT, "total": FLOAT})


def test_embeddings_added_and_normalised():
    constants = {"w": floats(20, 8), "p": floats(6, 8), "s": floats(2, 8), "g": floats(8), "b": floats(8)}
    feeds = {
        "ids": RNG.integers(0, 20, (2, 5)).astype("i4"), "kinds": RNG.integers(0, 2, (2, 5)).astype("i4"),
        "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4"),
    }  # fmt: skip
    names = ["ids", "kinds", "w", "p", "s", "g", "b", "mask"]
    check([node("EmbedLayerNormalization", names, ("y", "n"))], feeds, constants, {"y": FLOAT, "n": INT32})


@pytest.mark.parametrize("mask", ["", "mask"])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_from_one_projection(mask, causal):
    constants = {"w": floats(8, 24), "b": floats(24)}
    feeds = {"x": floats(2, 5, 8), "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4")}
    feeds = feeds if mask else {"x": feeds["x"]}
    check(
        [node("Attention", ["x", "w", "b", mask], num_heads=2, unidirectional=causal)], feeds, constants, {"y": FLOAT}
    )


@pytest.mark.parametrize("activation", ["Relu", "Tanh"])
def test_convolutions_with_an_activation(activation):
    constants = {"w": floats(4, 3, 3, 3), "b": floats(4)}
    check(
        [node("FusedConv", ["x", "w", "b"], activation=activation)], {"x": floats(1, 3, 6, 6)}, constants, {"y": FLOAT}
    )


@pytest.mark.parametrize("pairs", [0, 1])
def test_rotary_embedding_from_a_first_position(pairs):
    constants = {"c": floats(16, 4), "s": floats(16, 4), "first": np.array([2], "i8")}
    feeds = {"x": floats(2, 5, 16)}
    check([node("RotaryEmbedding", ["x", "first", "c", "s"], interleaved=pairs)], feeds, constants, {"y": FLOAT})
