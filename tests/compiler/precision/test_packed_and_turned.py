"""Weights packed into few bits, channels that come last, and sums of codes: as ONNX Runtime has them."""

import numpy as np
import pytest
from onnx import helper

import compiler
from tests.compiler.precision.runtime import FLOAT, INT32, UINT8, both, check, model

f4 = np.float32
CLOSE = 1e-5


def rng(seed):
    return np.random.default_rng(seed)


def floats(seed, *shape):
    return rng(seed).standard_normal(shape).astype(f4)


def codes(seed, *shape, dtype="u1"):
    info = np.iinfo(dtype)
    return rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def node(kind, names, outputs=("y",), domain="com.microsoft", **attributes):
    return helper.make_node(kind, list(names), list(outputs), domain=domain, **attributes)


def same_as(fused, plain, feeds, constants, outputs, relative=CLOSE):
    """What no runtime here executes is compared with the plain operators that it stands for."""
    ours = compiler.load(model(fused, feeds, constants, outputs))
    program = compiler.compile(ours)
    found, counters = compiler.simulate(program.to_bytes(), feeds)
    expected = both(model(plain, feeds, constants, outputs), feeds)[1]
    assert counters == program.resources
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() <= relative * np.abs(array).max()


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_packed_table(bits, zeros):
    width, block = 64, 16
    constants = {"t": codes(0, 6, width * bits // 8), "s": floats(1, 6, width // block)}
    if zeros:
        constants["z"] = codes(2, 6, width // block * bits // 8) if bits > 2 else codes(2, 6, 1)
    feeds = {"i": np.array([[0, 5, -1], [3, 2, 2]], "i8")}
    names = ["t", "i", "s", "z"] if zeros else ["t", "i", "s"]
    made = node("GatherBlockQuantized", names, bits=bits, block_size=block, gather_axis=0, quantize_axis=1)
    check([made], feeds, constants, {"y": FLOAT}, relative=CLOSE)


def test_a_row_outside_a_packed_table_is_zero():
    constants = {"t": codes(0, 6, 32), "s": floats(1, 6, 4)}
    made = node("GatherBlockQuantized", ["t", "i", "s"], bits=8, block_size=16, gather_axis=0, quantize_axis=1)
    constants["s"] = constants["s"][:, :2]
    feeds = {"i": np.array([7, 1, -9], "i4")}
    ours, _, _ = both(
        model([made], {"i": np.array([1, 1, 1], "i4")}, constants, {"y": FLOAT}), {"i": np.array([1, 1, 1], "i4")}
    )
    program = compiler.compile(compiler.load(model([made], feeds, constants, {"y": FLOAT})))
    found = compiler.simulate(program.to_bytes(), feeds)[0]["y"]
    assert not found[0].any()
    assert not found[2].any()
    assert np.array_equal(found[1], ours["y"][1])


@pytest.mark.parametrize("kind", [0, 1])
def test_products_by_weights_of_four_bit_floats(kind):
    columns, depth, block = 5, 32, 16
    constants = {"w": codes(0, columns * depth // 2), "s": rng(1).random(columns * depth // block).astype(f4)}
    made = node("MatMulBnb4", ["x", "w", "s"], K=depth, N=columns, block_size=block, quant_type=kind)
    check([made], {"x": floats(2, 3, depth)}, constants, {"y": FLOAT}, relative=CLOSE)


def test_tables_of_codes_added_and_normalised():
    scale = {f"s{i}": np.array(0.01 + 0.003 * i, f4) for i in range(5)}
    zero = {f"z{i}": np.array(120 + i, "u1") for i in range(5)}
    tables = {"w": codes(0, 20, 8), "p": codes(1, 6, 8), "k": codes(2, 2, 8), "g": codes(3, 8), "b": codes(4, 8)}
    feeds = {
        "ids": rng(5).integers(0, 20, (2, 5)).astype("i4"),
        "kinds": rng(6).integers(0, 2, (2, 5)).astype("i4"),
        "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4"),
    }
    names = ["ids", "kinds", *tables, "mask", *scale, *zero]
    made = node("QEmbedLayerNormalization", names, ("y", "n"), epsilon=1e-6)
    check([made], feeds, {**tables, **scale, **zero}, {"y": FLOAT, "n": INT32})


def test_pools_of_channels_last():
    made = node("NhwcMaxPool", ["x"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    check([made], {"x": codes(0, 2, 7, 6, 4)}, {}, {"y": UINT8})


@pytest.mark.parametrize("kind", ["NhwcConv", "NhwcFusedConv"])
def test_convolutions_of_channels_last(kind):
    feeds, constants = {"x": floats(0, 1, 6, 5, 4)}, {"w": floats(1, 6, 2, 3, 3), "b": floats(2, 6)}
    names, attributes, behind = ["x", "w", "b"], {"group": 2, "pads": [1, 1, 1, 1]}, []
    if kind == "NhwcFusedConv":
        feeds["z"] = floats(3, 1, 6, 5, 6)
        names.append("z")
        behind = [helper.make_node("Add", ["t", "z"], ["u"]), helper.make_node("Relu", ["u"], ["y"])]
    fused = node(kind, names, **attributes, **({"activation": "Relu"} if behind else {}))
    plain = [
        helper.make_node("Transpose", ["x"], ["n"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["n", "w", "b"], ["c"], **attributes),
        helper.make_node("Transpose", ["c"], ["t" if behind else "y"], perm=[0, 2, 3, 1]),
        *behind,
    ]
    same_as([fused], plain, feeds, constants, {"y": FLOAT})


def test_groups_of_channels_normalised_with_a_gate():
    feeds, constants = (
        {"x": floats(0, 2, 3, 3, 8), "s": floats(1, 2, 8)},
        {"g": floats(2, 8), "b": floats(3, 8), "c": floats(4, 8)},
    )
    fused = node("SkipGroupNorm", ["x", "g", "b", "s", "c"], ("y", "sum"), groups=2, activation=1, epsilon=1e-5)
    constants["wide"] = np.array([2, 1, 1, 8], "i8")
    plain = [
        helper.make_node("Reshape", ["s", "wide"], ["s4"]),
        helper.make_node("Add", ["x", "s4"], ["a"]),
        helper.make_node("Add", ["a", "c"], ["sum"]),
        helper.make_node("Transpose", ["sum"], ["n"], perm=[0, 3, 1, 2]),
        helper.make_node("GroupNormalization", ["n", "g", "b"], ["m"], num_groups=2, epsilon=1e-5),
        helper.make_node("Transpose", ["m"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Sigmoid", ["t"], ["q"]),
        helper.make_node("Mul", ["t", "q"], ["y"]),
    ]
    same_as([fused], plain, feeds, constants, {"y": FLOAT, "sum": FLOAT})


def test_halves_that_gate_each_other():
    fused = node("BiasSplitGelu", ["x", "b"])
    plain = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Split", ["a"], ["l", "r"], axis=-1, num_outputs=2),
        helper.make_node("Gelu", ["r"], ["g"]),
        helper.make_node("Mul", ["l", "g"], ["y"]),
    ]
    same_as([fused], plain, {"x": floats(0, 2, 3, 8)}, {"b": floats(1, 8)}, {"y": FLOAT})


def test_products_and_sums_of_codes_are_exact():
    feeds = {"a": codes(0, 2, 3, dtype="i1"), "b": codes(1, 2, 3, dtype="i1")}
    constants = {"za": np.array(3, "i1"), "zb": np.array(-5, "i1")}
    nodes = [
        node("MulInteger", ["a", "za", "b", "zb"], ("p",)),
        node("ReduceSumInteger", ["a"], ("s",), axes=[1], keepdims=0),
    ]
    program = compiler.compile(compiler.load(model(nodes, feeds, constants, {"p": INT32, "s": INT32})))
    found = compiler.simulate(program.to_bytes(), feeds)[0]
    a, b = feeds["a"].astype("i4"), feeds["b"].astype("i4")
    assert np.array_equal(found["p"], (a - 3) * (b + 5))
    assert np.array_equal(found["s"], a.sum(axis=1))
    wide = {"a": codes(2, 3, 4, dtype="i2"), "b": codes(3, 4, 2, dtype="i2")}
    assert check([node("MatMulInteger16", ["a", "b"])], wide, {}, {"y": INT32})


def test_means_of_codes():
    feeds = {"x": codes(0, 2, 3, 4)}
    constants = {"s": np.array(0.1, f4), "z": np.array(100, "u1"), "t": np.array(0.07, f4), "o": np.array(110, "u1")}
    made = node("QLinearReduceMean", ["x", "s", "z", "t", "o"], axes=[1, 2], keepdims=0)
    program = compiler.compile(compiler.load(model([made], feeds, constants, {"y": UINT8})))
    found = compiler.simulate(program.to_bytes(), feeds)[0]["y"]
    mean = ((feeds["x"].astype(f4) - 100) * f4(0.1)).mean(axis=(1, 2))
    assert np.abs(found - np.clip(np.round(mean / f4(0.07)) + 110, 0, 255)).max() <= 1
