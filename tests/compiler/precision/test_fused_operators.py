"""Operators that optimisers fuse give what ONNX Runtime gives."""

import numpy as np
import pytest
from onnx import helper

import compiler
from tests.compiler.precision.runtime import FLOAT, INT32, check, model

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


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("SkipLayerNormalization", ["x", "s", "g", "b", "c"]),
        ("SkipLayerNormalization", ["x", "s", "g", "b"]),
        ("SkipSimplifiedLayerNormalization", ["x", "s", "g", "c"]),
    ],
)
def test_normalised_sums(kind, names):
    constants = {name: floats(8) for name in ("g", "b", "c")}
    feeds = {"x": floats(2, 3, 8), "s": floats(2, 3, 8)}
    check([node(kind, names, ("y", "", "", "total"), epsilon=1e-5)], feeds, constants, {"y": FLOAT, "total": FLOAT})


def test_embeddings_added_and_normalised():
    constants = {"w": floats(20, 8), "p": floats(6, 8), "s": floats(2, 8), "g": floats(8), "b": floats(8)}
    feeds = {
        "ids": RNG.integers(0, 20, (2, 5)).astype("i4"),
        "kinds": RNG.integers(0, 2, (2, 5)).astype("i4"),
        "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4"),
    }
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


@pytest.mark.parametrize("kind", ["FusedMatMul", "TransposeMatMul"])
@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (1, 1)])
def test_products_whose_batch_lies_inside(kind, a, b):
    first = {"transBatchA": 1, "transBatchB": 1} if kind == "FusedMatMul" else {}
    feeds = {"a": floats(3, 2, 4, 5), "b": floats(5, 2, 4, 6)}
    if not first:
        feeds = {"a": floats(2, 4, 3, 5), "b": floats(2, 4, 5, 6)}
    for side, turned in (("a", a), ("b", b)):
        if turned:
            feeds[side] = np.ascontiguousarray(feeds[side].swapaxes(0 if first else -2, -1))
    check([node(kind, ["a", "b"], transA=a, transB=b, alpha=0.5, **first)], feeds, {}, {"y": FLOAT})


@pytest.mark.parametrize(
    "activation", ["LeakyRelu", "HardSigmoid", "Elu", "Relu", "Softplus", "Selu", "ThresholdedRelu"]
)
def test_gemm_with_an_activation_that_has_parameters_of_its_own(activation):
    constants = {"w": floats(5, 4), "c": floats(4)}
    named = {"activation_alpha": 0.3, "activation_beta": 0.6, "activation_gamma": 1.2}
    made = node("FusedGemm", ["x", "w", "c"], alpha=0.5, beta=2.0, activation=activation, **named)
    check([made], {"x": floats(3, 5)}, constants, {"y": FLOAT})


@pytest.mark.parametrize(("activation", "parameters"), [("Relu", []), ("Clip", [0.0, 6.0]), ("LeakyRelu", [0.2])])
def test_convolutions_with_something_added_before_the_activation(activation, parameters):
    constants = {"w": floats(4, 3, 3, 3), "b": floats(4)}
    feeds = {"x": floats(1, 3, 6, 6), "z": floats(1, 4, 4, 4)}
    given = {"activation_params": parameters} if parameters else {}
    made = node("FusedConv", ["x", "w", "b", "z"], activation=activation, **given)
    check([made], feeds, constants, {"y": FLOAT})


def test_small_operators_of_newer_and_older_exports():
    x, c = {"x": floats(2, 3, 8)}, {"s": floats(4), "one": np.array(0.7, f4)}
    check([node("ScaledSiLU", ["x"], alpha=1.7)], x, {}, {"y": FLOAT})
    check([node("ScaledSiLU", ["x", "one"])], x, c, {"y": FLOAT})
    gate = {**x, "g": floats(2, 3, 8)}
    check([node("GatedRMSNorm", ["x", "s", "g"], activation="silu")], gate, c, {"y": FLOAT})
    check([node("GatedRMSNorm", ["x", "s", "g"], activation="sigmoid", epsilon=0.1)], gate, c, {"y": FLOAT})
    check(
        [node("GatedAdd", ["x", "y1", "g"], ("y",))],
        {**x, "y1": floats(2, 3, 8), "g": floats(2, 3, 1)},
        {},
        {"y": FLOAT},
    )
    check([node("Trilu", ["x", "k"], upper=0)], x, {"k": np.array(1, "i8")}, {"y": FLOAT})
    check([node("Pad", ["x", "p"])], x, {"p": np.array([0, 1, 0, 0, 0, 2], "i8")}, {"y": FLOAT})
    check([node("ExpandDims", ["x", "a"])], x, {"a": np.array(-2, "i4")}, {"y": FLOAT})
    check([node("GatherND", ["x", "i"])], x, {"i": np.array([[0, 2], [1, 1]], "i8")}, {"y": FLOAT})
    own = helper.make_node("SimplifiedLayerNormalization", ["x", "w"], ["y"], axis=-1, epsilon=1e-6)
    check([own], x, {"w": floats(8)}, {"y": FLOAT})


def test_an_attribute_that_nobody_knows_is_refused():
    made = node("QuickGelu", ["x"], alpha=1.0)
    made.attribute.append(helper.make_attribute("beta", 2.0))
    with pytest.raises(compiler.ModelError, match="'beta' is not known"):
        compiler.load(model([made], {"x": floats(2, 3)}, {}, {"y": FLOAT}))
