"""Types that are stored and not computed with: bfloat16, float8, 4 bits. From ONNX to the simulator."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.errors import ModelError
from compiler.ir.parse import parse
from compiler.ir.text import blobs, to_text
from compiler.numerics.scalar import apply
from tests.compiler.standard import everything, excluded, outcome, simulate

BF16, E4M3, E5M2, I4 = (np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"))
CODE = {BF16: TensorProto.BFLOAT16, E4M3: TensorProto.FLOAT8E4M3FN, E5M2: TensorProto.FLOAT8E5M2, I4: TensorProto.INT4}
FLOAT = TensorProto.FLOAT


def stored(name, array):
    """An initialiser of any type; `onnx.numpy_helper` packs those of 4 bits."""
    return onnx.numpy_helper.from_array(array, name)


def model(nodes, inputs, outputs, weights):
    values = [[helper.make_tensor_value_info(*one) for one in some] for some in (inputs, outputs)]
    graph = helper.make_graph(nodes, "small", *values, [stored(n, a) for n, a in weights.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    onnx.checker.check_model(made)
    return made


def layer_of_bfloat16(rng):
    weights = {"w": rng.standard_normal((24, 10)).astype(BF16), "b": rng.standard_normal(10).astype(BF16)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["a"])]
    nodes += [helper.make_node("Relu", ["a"], ["y"])]
    kind = TensorProto.BFLOAT16
    return model(nodes, [("x", kind, [4, 24])], [("y", kind, [4, 10])], weights)


def layer_of_codes(rng, dtype):
    """A product whose weights are codes of ``dtype`` with a scale for each column."""
    codes = rng.integers(-8, 8, (24, 11)).astype(np.float32).astype(dtype)  # an odd number of them, with 11 columns
    weights = {"w": codes, "s": (rng.random(11) + 0.5).astype(np.float32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    return model(nodes, [("x", FLOAT, [4, 24])], [("y", FLOAT, [4, 11])], weights)


@pytest.mark.parametrize("target", ["lpu", "systolic"])
def test_a_model_of_bfloat16_answers_in_bfloat16(target):
    rng = np.random.default_rng(1)
    made = layer_of_bfloat16(rng)
    program = compiler.compile(compiler.load(made), target)
    feeds = {"x": rng.standard_normal((4, 24)).astype(BF16)}
    found, counters = compiler.simulate(program.to_bytes(), feeds)
    assert counters == program.resources
    expected = ReferenceEvaluator(made).run(None, feeds)[0]
    assert found["y"].dtype == expected.dtype == BF16
    np.testing.assert_allclose(found["y"].astype(np.float32), expected.astype(np.float32), rtol=2**-5, atol=2**-5)
    wide = np.maximum((feeds["x"].astype(np.float32) @ weight(made, 0)).astype(BF16) + weight(made, 1).astype(BF16), 0)
    np.testing.assert_array_equal(found["y"], wide.astype(BF16))


def weight(made, n):
    return onnx.numpy_helper.to_array(made.graph.initializer[n]).astype(np.float32)


@pytest.mark.parametrize("dtype", [E4M3, E5M2, I4])
def test_codes_of_every_small_type_multiply_as_onnx_says(dtype):
    rng = np.random.default_rng(2)
    made = layer_of_codes(rng, dtype)
    graph = compiler.load(made)
    feeds = {"x": rng.standard_normal((4, 24)).astype(np.float32)}
    found = simulate(graph, feeds)["y"]
    np.testing.assert_allclose(found, ReferenceEvaluator(made).run(None, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "scale"), [(E4M3, 0.5), (E5M2, 0.01), (I4, 0.3)])
def test_values_of_small_types_cross_the_link_and_come_back(dtype, scale):
    """Quantised on the processor, sent in the small type, and what lies beyond its range saturated."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])]
    weights = {"s": np.float32(scale).reshape(()), "z": np.zeros((), dtype)}
    made = model(nodes, [("x", FLOAT, [7])], [("y", CODE[dtype], [7])], weights)
    most = 1e8 if dtype == I4 else np.inf  # the reference leaves open what becomes of an infinite number as a whole one
    feeds = {"x": np.array([0.1, -0.24, 3.3, 1e6, -1e6, most, 0.0], np.float32)}
    found = simulate(compiler.load(made), feeds)["y"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, ReferenceEvaluator(made).run(None, feeds)[0])


def test_every_kind_of_small_case_of_the_standard_passes():
    chosen = ("cast_FLOAT_to_FLOAT8E4M3FN", "castlike_no_saturate_FLOAT16_to_FLOAT8E5M2", "dequantizelinear_int4")
    chosen += ("quantizelinear_e5m2", "cast_FLOAT_to_INT4", "celu_bfloat16", "unique_bfloat16_sorted_without_axis")
    found = {c.name: c for c in everything() if c.name in {f"test_{name}" for name in chosen}}
    assert len(found) == len(chosen)
    assert [o for o in (outcome(c, simulate) for c in found.values() if not excluded(c)) if o.verdict != "passed"] == []


@given(st.lists(st.floats(width=32), min_size=1), st.sampled_from([BF16, E4M3, E5M2]))
def test_a_conversion_rounds_to_the_nearest_and_of_two_to_the_even(values, dtype):
    """Against all numbers that the type has."""
    x = np.array(values, np.float32)
    got = apply("cast", [x], dtype).astype(np.float64)
    with np.errstate(invalid="ignore"):
        every = np.unique(np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype).astype(np.float64))
    every = every[np.isfinite(every)]
    for value, found in zip(x.astype(np.float64), got, strict=True):
        if not np.isfinite(found):  # beyond the type's range by half a step or more, or no number before
            step = every[-1] - every[-2]
            assert np.isnan(value) or abs(value) >= every[-1] + step / 2
            continue
        nearest = np.abs(every - value)
        near = every[nearest == nearest.min()]
        assert found in near
        if len(near) > 1:
            assert np.array(found, np.float64).astype(dtype).view(f"u{dtype.itemsize}") % 2 == 0


@given(st.integers(1, 9), st.sampled_from([I4, np.dtype(ml_dtypes.uint4)]), st.randoms(use_true_random=False))
def test_numbers_of_four_bits_are_read_two_from_a_byte(size, dtype, random):
    info = ml_dtypes.iinfo(dtype)
    array = np.array([random.randint(int(info.min), int(info.max)) for _ in range(size)]).astype(dtype)
    made = model(
        [helper.make_node("Cast", ["w"], ["c"], to=FLOAT), helper.make_node("Add", ["x", "c"], ["y"])],
        [("x", FLOAT, [size])],
        [("y", FLOAT, [size])],
        {"w": array},
    )
    found = compiler.load(made)
    assert any(np.array_equal(c, array.astype(np.float32)) for c in found.constants.values())


def test_the_text_form_keeps_small_types():
    graph = compiler.load(layer_of_bfloat16(np.random.default_rng(3)))
    text = to_text(graph)
    assert "bf16[4,24]" in text
    assert to_text(parse(text, blobs(graph))) == text


def test_a_number_is_a_constant_for_an_input_of_bfloat16():
    """It is rounded, as for an input of float16."""
    kind = TensorProto.BFLOAT16
    made = model(
        [helper.make_node("Mul", ["x", "s"], ["y"])], [("x", kind, [4]), ("s", kind, [])], [("y", kind, [4])], {}
    )
    graph = compiler.load(made, constants={"s": 0.1})
    assert list(graph.inputs) == ["x"]
    x = np.float32([1, 2, 3, 4]).astype(BF16)
    found, _ = compiler.simulate(compiler.compile(graph).to_bytes(), {"x": x})
    np.testing.assert_array_equal(found["y"], x * np.float32(0.1).astype(BF16))


def test_a_tensor_of_four_bits_that_lacks_a_byte_is_refused():
    made = layer_of_codes(np.random.default_rng(4), I4)
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-1]
    with pytest.raises(ModelError, match=r"its shape .* needs 264"):
        compiler.load(made)
