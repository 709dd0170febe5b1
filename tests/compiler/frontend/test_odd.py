"""Models drawn at random, and what such models have found: odd attributes give what ONNX Runtime gives, or are refused."""

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.errors import ModelError
from tests.compiler.odd.draft import by_runtime, model
from tests.compiler.odd.verdict import DISPUTED, NOTHING, PASSED, REFUSED, WRONG, difference, verdict
from tests.tiers import WHOLE, part


def test_random_models_come_out_as_elsewhere_or_are_refused():
    found = {seed: verdict(seed) for seed in part(range(40, 70))}
    assert {seed: one.reason for seed, one in found.items() if one.what == WRONG} == {}
    assert {one.what for one in found.values()} <= {PASSED, REFUSED, DISPUTED, NOTHING}
    assert sum(one.what == PASSED for one in found.values()) > (20 if WHOLE else 5)


def ours(node, feeds, constants=None, opset=17):
    """Our answer by the binary, and ONNX Runtime's."""
    data = model([node], feeds, constants or {}, ["y"], opset)
    found, counters = compiler.simulate((program := compiler.compile(compiler.load(data))).to_bytes(), feeds)
    assert counters == program.resources
    return found, dict(zip(["y"], by_runtime(data, ["y"], feeds), strict=True))


X = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(-9, -(2**63), -1), (9, -9, -2), (-2, -9, -1), (4, 0, -3), (-9, 9, 2)]
)
def test_a_slice_is_clamped_within_its_dimension(start, end, step):
    parts = {n: np.array([v], np.int64) for n, v in (("s", start), ("e", end), ("a", -1), ("t", step))}
    assert difference(*ours(helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]), {"x": X}, parts)) == ""


@pytest.mark.parametrize(
    "attributes", [{"output_shape": [13]}, {"output_shape": [15]}, {"output_shape": [13], "auto_pad": "SAME_UPPER"}]
)
def test_a_transposed_convolution_is_cut_where_the_standard_says(attributes):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3], **attributes)
    assert difference(*ours(node, {"x": X}, {"w": np.array([[[1, 10]]], np.float32)})) == ""


def test_nothing_beside_nothing_is_as_wide_as_both():
    feeds = {"x": np.zeros((0, 1, 2), np.float32), "z": np.zeros((0, 1, 3), np.float32)}
    assert difference(*ours(helper.make_node("Concat", ["x", "z"], ["y"], axis=2), feeds)) == ""


@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_cubic_samples_beyond_the_border(mode, corners):
    rng = np.random.default_rng(3)
    feeds = {
        "x": rng.standard_normal((1, 2, 4, 5)).astype("f"),
        "g": (rng.standard_normal((1, 3, 3, 2)) * 1.5).astype("f"),
    }
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="bicubic", padding_mode=mode, align_corners=corners)
    assert difference(*ours(node, feeds)) == ""


@pytest.mark.parametrize(
    ("node", "constants", "words"),
    [
        (
            helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1], strides=[3], auto_pad="SAME_UPPER"),
            {},
            "State pads",
        ),
        (
            helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1], strides=[2], auto_pad="SAME_UPPER"),
            {},
            "State pads",
        ),
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3], auto_pad="SAME_UPPER"),
            {"w": np.ones((1, 1, 2), np.float32)},
            "State pads",
        ),
        (
            helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
            {n: np.array([v], np.int64) for n, v in (("s", 3), ("e", 2**63 - 1), ("a", 2), ("t", -1))},
            "Write -92233720",
        ),
        (helper.make_node("ArgMin", ["x"], ["y"], axis=2), {}, "has no elements"),
    ],
)
def test_what_runtimes_read_differently_is_refused(node, constants, words):
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(1, 1, 6)}
    if node.op_type == "ArgMin":
        feeds = {"x": np.zeros((1, 4, 0), np.float32)}
    with pytest.raises(ModelError, match=words):
        compiler.load(model([node], feeds, constants, ["y"], 17))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 1), (2, 3, 4, 5)])
def test_an_input_of_another_rank_is_refused(shape):
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=5, layout=1)
    weights = {"w": np.ones((1, 20, 4), np.float32), "r": np.ones((1, 20, 5), np.float32)}
    with pytest.raises(ModelError, match=f"LSTM: an input has {len(shape)} dimensions where there should be 3"):
        compiler.load(model([node], {"x": np.ones(shape, np.float32)}, weights, ["y"], 17))


@pytest.mark.parametrize("precision", ["int8", "float16"])
def test_a_layer_whose_first_state_is_known_compiles_in_fewer_bits(precision):
    rng = np.random.default_rng(1)
    feeds = {"x": (rng.standard_normal((3, 2, 4)) / 2).astype("f")}
    weights = {
        "w": (rng.standard_normal((1, 5, 4)) / 4).astype("f"),
        "r": (rng.standard_normal((1, 5, 5)) / 4).astype("f"),
        "h": np.full((1, 2, 5), 0.25, np.float32),
    }
    node = helper.make_node("RNN", ["x", "w", "r", "", "", "h"], ["y"], hidden_size=5)
    data = model([node], feeds, weights, ["y"], 20)
    graph = compiler.load(data)
    program = compiler.compile(graph, precision=precision, calibration=compiler.calibrate(graph, [feeds], precision))
    found, counters = compiler.simulate(program.to_bytes(), feeds)
    assert counters == program.resources
    expected = by_runtime(data, ["y"], feeds)[0]
    assert np.abs(found["y"] - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize("peepholes", [False, True])
def test_an_lstm_may_keep_what_it_does_not_take_in(peepholes):
    rng = np.random.default_rng(4)
    shapes = {"w": (2, 12, 4), "r": (2, 12, 3), "b": (2, 24), "p": (2, 9)}
    constants = {name: rng.standard_normal(shape).astype(np.float32) / 2 for name, shape in shapes.items()}
    names = ["x", "w", "r", "b", *([""] * 3 + ["p"] if peepholes else [])]
    node = helper.make_node("LSTM", names, ["y"], hidden_size=3, direction="bidirectional", input_forget=1)
    found, expected = ours(node, {"x": rng.standard_normal((5, 2, 4)).astype(np.float32)}, constants)
    assert difference(found, expected) == ""
