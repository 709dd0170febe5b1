"""Attention as transformers are exported: every form gives what ONNX Runtime gives, caches and masks included."""

import numpy as np
import pytest
from onnx import helper

import compiler
from tests.compiler.precision.runtime import FLOAT, both, check, model

f4 = np.float32
CLOSE = 1e-5


def floats(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(f4)


def node(kind, names, outputs=("y",), **attributes):
    return helper.make_node(kind, list(names), list(outputs), domain="com.microsoft", **attributes)


MASKS = {
    "none": None,
    "of keys": np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]], "i4"),
    "of pairs": np.random.default_rng(1).integers(0, 2, (2, 4, 6)).astype("i4"),
    "of lengths": np.array([3, 6], "i4"),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("extras", [False, True])
def test_queries_of_one_text_and_keys_of_another(mask, extras):
    feeds = {"q": floats(0, 2, 4, 16), "k": floats(1, 2, 6, 16), "v": floats(2, 2, 6, 8)}
    names = ["q", "k", "v", "", "", ""]
    constants = {}
    if extras:
        constants = {"b": floats(3, 40), "bias": floats(4, 1, 4, 4, 6)}
        names[3], names[5] = "b", "bias"
    if MASKS[mask] is not None:
        feeds["m"], names[4] = MASKS[mask], "m"
    check([node("MultiHeadAttention", names, num_heads=4)], feeds, constants, {"y": FLOAT}, relative=CLOSE)


@pytest.mark.parametrize("causal", [0, 1])
def test_keys_behind_those_of_earlier_runs(causal):
    feeds = {
        "q": floats(0, 2, 3, 16),
        "k": floats(1, 2, 3, 16),
        "v": floats(2, 2, 3, 16),
        "pk": floats(3, 2, 4, 5, 4),
        "pv": floats(4, 2, 4, 5, 4),
    }
    names = ["q", "k", "v", "b", "", "", "pk", "pv"]
    outputs = {"y": FLOAT, "nk": FLOAT, "nv": FLOAT}
    made = [node("MultiHeadAttention", names, outputs, num_heads=4, unidirectional=causal, scale=0.3)]
    check(made, feeds, {"b": floats(5, 48)}, outputs, relative=CLOSE)


def test_keys_kept_by_heads():
    feeds = {"q": floats(0, 2, 3, 16), "k": floats(1, 2, 4, 5, 4), "v": floats(2, 2, 4, 5, 4)}
    check([node("MultiHeadAttention", ["q", "k", "v"], num_heads=4)], feeds, {}, {"y": FLOAT}, relative=CLOSE)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("mask", [None, (2, 7), (2, 4, 7), (4,)])
def test_one_projection_with_a_past(past, mask):
    total = 7 if past else 4
    feeds = {"x": floats(0, 2, 4, 8)}
    names, constants = ["x", "w", "b", "", ""], {"w": floats(1, 8, 24), "b": floats(2, 24)}
    if mask:
        mask = tuple(total if n == 7 else n for n in mask)
        feeds["m"] = (
            np.array([3, 4, 1, 0], "i4")
            if len(mask) == 1
            else np.random.default_rng(5).integers(0, 2, mask).astype("i4")
        )
        names[3] = "m"
    if past:
        feeds["p"], names[4] = floats(3, 2, 2, 2, 3, 4), "p"
    outputs = {"y": FLOAT, "present": FLOAT}
    check([node("Attention", names, outputs, num_heads=2, unidirectional=1)], feeds, constants, outputs, relative=CLOSE)


def grouped(seed, length, past, total, lengths, *, packed=False, rotary=0, batch=2, **attributes):
    """A case of two key heads for four query heads of 16 elements: nodes, feeds, constants."""
    feeds = {"q": floats(seed, batch, length, 128 if packed else 64)}
    names = ["q", "", ""]
    if not packed:
        feeds |= {"k": floats(seed + 1, batch, length, 32), "v": floats(seed + 2, batch, length, 32)}
        names = ["q", "k", "v"]
    feeds |= {"pk": floats(seed + 3, batch, 2, past, 16), "pv": floats(seed + 4, batch, 2, past, 16)}
    feeds["lengths"] = np.array(lengths, "i4")
    names += ["pk", "pv", "lengths", "total"]
    constants = {"total": np.array(total, "i4")}
    if rotary:
        angle = np.arange(20)[:, None] / 5 ** np.arange(8)
        constants |= {"cos": np.cos(angle).astype(f4), "sin": np.sin(angle).astype(f4)}
        names += ["cos", "sin"]
    made = node(
        "GroupQueryAttention", names, ("y", "nk", "nv"), num_heads=4, kv_num_heads=2, do_rotary=rotary, **attributes
    )
    return [made], feeds, constants, {"y": FLOAT, "nk": FLOAT, "nv": FLOAT}


@pytest.mark.parametrize(
    ("rotary", "extra"),
    [
        (0, {}),
        (1, {}),
        (1, {"rotary_interleaved": 1}),
        (0, {"local_window_size": 3}),
        (0, {"softcap": 2.0}),
        (1, {"packed": True}),
        (0, {"smooth_softmax": 1}),
        (0, {"scale": 0.7}),
    ],
)
@pytest.mark.parametrize("step", ["first", "next"])
def test_fewer_keys_than_queries(rotary, extra, step):
    length, past, total = (6, 0, 6) if step == "first" else (1, 6, 7)
    check(*grouped(0, length, past, total, [total - 1] * 2, rotary=rotary, **extra), relative=CLOSE)


def test_several_new_tokens_behind_a_past():
    check(*grouped(3, 3, 6, 9, [8], rotary=1, batch=1), relative=CLOSE)


def test_sequences_of_several_lengths_in_one_cache():
    """The second sequence is shorter: its key lands earlier, and what lies behind is not seen."""
    data, feeds = case(*grouped(7, 1, 6, 7, [6, 3], rotary=1))
    ours, theirs, _ = both(data, feeds)
    assert np.abs(ours["y"] - theirs["y"]).max() <= CLOSE * np.abs(theirs["y"]).max()
    for name in ("nk", "nv"):
        assert np.allclose(ours[name][0], theirs[name][0], atol=1e-6)
        assert np.allclose(ours[name][1, :, :4], theirs[name][1, :, :4], atol=1e-6)  # what is behind is anybody's


def case(nodes, feeds, constants, outputs):
    return model(nodes, feeds, constants, outputs), feeds


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_binary_says_the_same(precision):
    nodes, feeds, constants, outputs = grouped(9, 1, 6, 7, [6, 4], rotary=1)
    data, feeds = case(nodes, feeds, constants, outputs)
    program = compiler.compile(compiler.load(data), precision=precision)
    ours, counters = compiler.simulate(program.to_bytes(), feeds)
    theirs = both(data, feeds)[1]
    assert counters == program.resources
    assert (
        np.abs(ours["y"] - theirs["y"]).max() <= (CLOSE if precision == "float32" else 0.05) * np.abs(theirs["y"]).max()
    )


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"sliding_window_cache": 1, "local_window_size": 4}, "full length"),
        ({"k_quant_type": "PER_TENSOR"}, "floats"),
        ({"kv_num_heads": 3}, "heads"),
    ],
)
def test_what_is_not_offered_says_what_is(extra, words):
    nodes, feeds, constants, outputs = grouped(0, 1, 6, 7, [6, 6])
    kept = [a for a in nodes[0].attribute if a.name not in extra]
    del nodes[0].attribute[:]
    nodes[0].attribute.extend([*kept, *(helper.make_attribute(k, v) for k, v in extra.items())])
    with pytest.raises(compiler.ModelError, match=words):
        compiler.load(model(nodes, feeds, constants, outputs))
