"""Operators on codes give what ONNX Runtime gives, and multiply raw codes on the way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from compiler.ir.graph import Compute
from compiler.ir.types import DType
from tests.compiler.precision.runtime import FLOAT, INT8, INT32, UINT8, check
from tests.tiers import some

few = settings(deadline=None, max_examples=some(12))
SEED = st.integers(0, 2**32 - 1)
ONNX = {"u1": UINT8, "i1": INT8}
f4 = np.float32


def codes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def weights(rng, *shape):
    """Seven bits: some processors' 16-bit sums of two products saturate in the runtime's u8 x i8 kernels beyond that."""
    return rng.integers(-64, 64, shape).astype("i1")


def number(value, dtype):
    return np.array(value, dtype)


def multiplies_codes(graph):
    """Whether all contractions take 8-bit factors."""
    found = [n for n in graph.nodes if isinstance(n, Compute) and n.is_contraction]
    return bool(found) and all(s.dtype in (DType.I8, DType.U8) for n in found for s in n.expr.steps if s.op == "arg")


@few
@given(SEED, st.sampled_from(["u1", "i1"]), st.sampled_from(["u1", "i1"]), st.booleans(), st.booleans())
def test_matmul_integer(seed, left, right, zeros, constant):
    rng = np.random.default_rng(seed)
    m, k, n = rng.integers(1, 9, 3)
    right = "i1" if left == "i1" else right  # the runtime takes no other pair
    a, b = codes(rng, left, 2, m, k), weights(rng, k, n) if right == "i1" else codes(rng, right, k, n)
    feeds, constants = {"a": a}, {"za": number(rng.integers(0, 99), left), "zb": number(rng.integers(0, 9), right)}
    (constants if constant else feeds)["b"] = b
    names = ["a", "b", "za", "zb"] if zeros else ["a", "b"]
    graph = check([helper.make_node("MatMulInteger", names, ["y"])], feeds, constants, {"y": INT32})
    assert multiplies_codes(graph)


@few
@given(SEED, st.sampled_from([1, 2, 4]), st.booleans())
def test_conv_integer_reads_the_zero_point_outside_its_input(seed, groups, padded):
    rng = np.random.default_rng(seed)
    x, w = codes(rng, "u1", 1, 4, 6, 5), weights(rng, 4, 4 // groups, 3, 2)
    constants = {"w": w, "zx": number(rng.integers(0, 256), "u1")}
    pads = rng.integers(0, 2, 4).tolist() if padded else [0] * 4
    node = helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], group=groups, pads=pads, strides=[2, 1])
    assert multiplies_codes(check([node], {"x": x}, constants, {"y": INT32}))


@few
@given(SEED, st.sampled_from(["u1", "i1"]), st.booleans(), st.booleans())
def test_qlinear_conv_with_scales_per_channel(seed, dtype, per_channel, biased):
    rng = np.random.default_rng(seed)
    constants = {
        "sx": number(0.02, f4),
        "zx": number(rng.integers(0, 100), dtype),
        "w": weights(rng, 5, 3, 3, 3),
        "sw": (rng.random(5) * 0.02 + 0.001).astype(f4) if per_channel else number(0.01, f4),
        "zw": np.zeros(5, "i1") if per_channel else number(0, "i1"),
        "sy": number(0.11, f4),
        "zy": number(rng.integers(0, 100), dtype),
        "bias": rng.integers(-5000, 5000, 5).astype("i4"),
    }
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"] + (["bias"] if biased else [])
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])
    graph = check([node], {"x": codes(rng, dtype, 2, 3, 5, 6)}, constants, {"y": ONNX[dtype]}, steps=1)
    assert multiplies_codes(graph)
    assert len([n for n in graph.nodes if isinstance(n, Compute)]) == 1


@few
@given(SEED, st.sampled_from(["u1", "i1"]))
def test_qlinear_matmul(seed, dtype):
    rng = np.random.default_rng(seed)
    constants = {
        "sa": number(0.02, f4),
        "za": number(rng.integers(0, 100), dtype),
        "b": weights(rng, 7, 4),
        "sb": number(0.01, f4),
        "zb": number(0, "i1"),
        "sy": number(0.05, f4),
        "zy": number(3, dtype),
    }
    node = helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"])
    graph = check([node], {"a": codes(rng, dtype, 3, 5, 7)}, constants, {"y": ONNX[dtype]}, steps=1)
    assert multiplies_codes(graph)


@few
@given(SEED, st.integers(-2, 1), st.booleans())
def test_quantise_and_dequantise_along_any_axis(seed, axis, zeros):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((3, 4)) * 5).astype(f4)
    size = x.shape[axis]
    constants = {"s": (rng.random(size) * 0.1 + 0.01).astype(f4), "z": codes(rng, "i1", size)}
    names = ["s", "z"] if zeros else ["s"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"], axis=axis),
    ]
    check(nodes, {"x": x}, constants, {"q": INT8 if zeros else UINT8, "y": FLOAT})


def test_scales_per_block():
    rng = np.random.default_rng(1)
    constants = {"s": (rng.random((3, 2)) * 0.1 + 0.01).astype(f4), "z": codes(rng, "u1", 3, 2)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, block_size=4),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, block_size=4),
    ]
    check(nodes, {"x": rng.standard_normal((3, 8)).astype(f4)}, constants, {"q": UINT8, "y": FLOAT})


def quantised(rng, shape, name, dtype="u1", scale=0.05, zero=None):
    """A dequantised input or constant: its node, and its constants."""
    zero = int(rng.integers(0, 60)) if zero is None else zero
    node = helper.make_node("DequantizeLinear", [f"{name}q", f"{name}s", f"{name}z"], [name])
    return node, codes(rng, dtype, *shape), {f"{name}s": number(scale, f4), f"{name}z": number(zero, dtype)}


@few
@given(SEED, st.sampled_from(["Conv", "MatMul", "Gemm"]), st.booleans())
def test_dequantise_multiply_quantise_becomes_one_contraction_of_codes(seed, kind, relu):
    rng = np.random.default_rng(seed)
    shapes = {"Conv": ((1, 3, 5, 5), (4, 3, 3, 3)), "MatMul": ((2, 3, 6), (6, 4)), "Gemm": ((3, 6), (4, 6))}[kind]
    first, x, constants = quantised(rng, shapes[0], "x")
    second, _, more = quantised(rng, shapes[1], "w", "i1", 0.01, 0)
    w = weights(rng, *shapes[1])
    constants |= {
        **more,
        "wq": w,
        "bias": rng.standard_normal(4).astype(f4),
        "ys": number(0.1, f4),
        "yz": number(9, "u1"),
    }
    names = ["x", "w"] if kind == "MatMul" else ["x", "w", "bias"]
    attributes = {"Conv": {"pads": [1, 0, 1, 2]}, "MatMul": {}, "Gemm": {"transB": 1}}[kind]
    nodes = [first, second, helper.make_node(kind, names, ["m"], **attributes)]
    nodes += [helper.make_node("Relu", ["m"], ["r"])] if relu else []
    nodes += [helper.make_node("QuantizeLinear", ["r" if relu else "m", "ys", "yz"], ["y"])]
    graph = check(nodes, {"xq": x}, constants, {"y": UINT8}, steps=1)
    assert multiplies_codes(graph)
    assert len([n for n in graph.nodes if isinstance(n, Compute)]) == 1, "one contraction with a requantising end"


def microsoft(kind, names, outputs=("y",), **attributes):
    return helper.make_node(kind, names, list(outputs), domain="com.microsoft", **attributes)


def scales(rng, dtype, *names):
    found = {}
    for name in names:
        found |= {f"s{name}": number(rng.random() * 0.05 + 0.01, f4), f"z{name}": number(rng.integers(0, 99), dtype)}
    return found


@few
@given(SEED, st.sampled_from(["QLinearAdd", "QLinearMul"]), st.sampled_from(["u1", "i1"]), st.booleans())
def test_sums_and_products_of_codes(seed, kind, dtype, broadcast):
    rng = np.random.default_rng(seed)
    feeds = {"a": codes(rng, dtype, 2, 3, 4), "b": codes(rng, dtype, *((4,) if broadcast else (2, 3, 4)))}
    node = microsoft(kind, ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"])
    check([node], feeds, scales(rng, dtype, "a", "b", "y"), {"y": ONNX[dtype]}, steps=1)


@few
@given(
    SEED,
    st.sampled_from(
        [
            ("QLinearSigmoid", {}),
            ("QLinearLeakyRelu", {"alpha": 0.2}),
            ("QLinearGlobalAveragePool", {}),
            ("QLinearAveragePool", {"kernel_shape": [2, 3], "pads": [1, 0, 0, 1], "strides": [2, 1]}),
            ("QLinearAveragePool", {"kernel_shape": [3, 3], "count_include_pad": 1, "pads": [1, 1, 1, 1]}),
            ("QLinearSoftmax", {"axis": -1, "opset": 13}),
        ]
    ),
    st.sampled_from(["u1", "i1"]),
)
def test_maps_and_pools_of_codes(seed, case, dtype):
    rng = np.random.default_rng(seed)
    kind, attributes = case
    constants = scales(rng, dtype, "x", "y")
    if kind in ("QLinearSigmoid", "QLinearSoftmax"):
        constants["sy"], constants["zy"] = number(1 / 256, f4), number(0 if dtype == "u1" else -128, dtype)
    node = microsoft(kind, ["x", "sx", "zx", "sy", "zy"], **attributes)
    check([node], {"x": codes(rng, dtype, 1, 3, 5, 6)}, constants, {"y": ONNX[dtype]}, steps=1)


@few
@given(SEED, st.booleans())
def test_parts_of_different_scales_are_joined_in_one(seed, same):
    rng = np.random.default_rng(seed)
    constants = scales(rng, "u1", "y", "a", "b")
    if same:
        constants |= {"sa": constants["sy"], "za": constants["zy"]}
    node = microsoft("QLinearConcat", ["sy", "zy", "a", "sa", "za", "b", "sb", "zb"], axis=1)
    check([node], {"a": codes(rng, "u1", 2, 3), "b": codes(rng, "u1", 2, 4)}, constants, {"y": UINT8}, steps=1)


@few
@given(SEED, st.booleans())
def test_products_that_end_in_floats(seed, biased):
    rng = np.random.default_rng(seed)
    constants = {"b": codes(rng, "u1", 6, 5), "sb": (rng.random(5) * 0.02).astype(f4), "zb": codes(rng, "u1", 5)}
    constants |= {"sa": number(0.03, f4), "za": number(77, "u1"), "bias": rng.standard_normal(5).astype(f4)}
    tail = ["bias"] if biased else []
    node = microsoft("MatMulIntegerToFloat", ["a", "b", "sa", "sb", "za", "zb", *tail])
    assert multiplies_codes(check([node], {"a": codes(rng, "u1", 3, 6)}, constants, {"y": FLOAT}))
    node = microsoft("DynamicQuantizeMatMul", ["a", "b", "sb", "zb", *tail])
    x = rng.standard_normal((3, 6)).astype(f4)
    assert multiplies_codes(check([node], {"a": x}, constants, {"y": FLOAT}, relative=2e-2))


@few
@given(SEED, st.booleans(), st.booleans(), st.booleans())
def test_qgemm(seed, trans_a, trans_b, floats):
    rng = np.random.default_rng(seed)
    a, b = codes(rng, "u1", 4, 6), codes(rng, "u1", 6, 5)
    constants = {**scales(rng, "u1", "a", "b", "y"), "b": b.T.copy() if trans_b else b}
    constants |= {"c": rng.integers(-999, 999, 5).astype("i4"), "sy": number(9.0, f4)}
    names = ["a", "sa", "za", "b", "sb", "zb", "c", *([] if floats else ["sy", "zy"])]
    node = microsoft("QGemm", names, transA=int(trans_a), transB=int(trans_b))
    feeds = {"a": a.T.copy() if trans_a else a}
    assert multiplies_codes(check([node], feeds, constants, {"y": FLOAT if floats else UINT8}, steps=1))


@few
@given(SEED, st.sampled_from([(4, 16), (4, 32), (8, 16)]), st.booleans())
def test_weights_of_few_bits_are_unpacked(seed, form, zeros):
    rng = np.random.default_rng(seed)
    (bits, block), columns, depth = form, 6, 40
    blocks = -(-depth // block)
    constants = {"b": codes(rng, "u1", columns, blocks, block * bits // 8)}
    constants["s"] = (rng.random(columns * blocks) * 0.1).astype(f4)
    constants["z"] = codes(rng, "u1", columns * -(-blocks * bits // 8))
    node = microsoft(
        "MatMulNBits", ["a", "b", "s", *(["z"] if zeros else [])], K=depth, N=columns, bits=bits, block_size=block
    )
    check([node], {"a": rng.standard_normal((3, depth)).astype(f4)}, constants, {"y": FLOAT}, relative=1e-3)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_codes(masked):
    rng = np.random.default_rng(5)
    constants = {
        "w": weights(rng, 8, 24),
        "bias": rng.standard_normal(24).astype(f4),
        "sx": number(0.02, f4),
        "sw": number(0.01, f4),
        "zx": number(120, "u1"),
        "zw": number(0, "i1"),
        "mask": np.array([[1, 1, 1, 0, 0]], "i4"),
    }
    node = microsoft("QAttention", ["x", "w", "bias", "sx", "sw", "mask" if masked else "", "zx", "zw"], num_heads=2)
    graph = check([node], {"x": codes(rng, "u1", 1, 5, 8)}, constants, {"y": FLOAT}, relative=1e-3)
    assert any(multiplies_codes(graph.with_nodes((n,))) for n in graph.nodes)


@few
@given(SEED, st.sampled_from(["forward", "reverse", "bidirectional"]), st.sampled_from(["i1", "u1"]), st.booleans())
def test_a_recurrence_by_codes(seed, way, dtype, columns):
    rng = np.random.default_rng(seed)
    (size, hidden), ways = rng.integers(1, 9, 2), 2 if way == "bidirectional" else 1
    kept = (ways, 4 * hidden) if columns else (ways,)
    matrices = [
        weights(rng, ways, n, 4 * hidden) if dtype == "i1" else codes(rng, dtype, ways, n, 4 * hidden)
        for n in (size, hidden)
    ]
    constants = {"w": matrices[0], "r": matrices[1], "b": rng.standard_normal((ways, 8 * hidden)).astype(f4)}
    constants |= {name: (rng.random(kept) * 0.01 + 0.002).astype(f4) for name in ("sw", "sr")}
    constants |= {name: np.full(kept, 0 if dtype == "i1" else 130, dtype) for name in ("zw", "zr")}
    feeds = {"x": rng.standard_normal((3, 1, size)).astype(f4), "h": rng.standard_normal((ways, 1, hidden)).astype(f4)}
    names = ["x", "w", "r", "b", "", "h", "", "", "sw", "zw", "sr", "zr"]
    node = microsoft("DynamicQuantizeLSTM", names, ("y", "yh", "yc"), hidden_size=int(hidden), direction=way)
    check([node], feeds, constants, {"y": FLOAT, "yh": FLOAT, "yc": FLOAT})
