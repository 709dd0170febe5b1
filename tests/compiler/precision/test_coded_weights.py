"""Codes of constant factors: as they are defined, and made once for all that calibrating asks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import compiler
from compiler.numerics.scalar import nearest
from compiler.passes import optimise
from compiler.precision import contraction
from compiler.precision.prepare import calibrated
from tests.compiler.precision.test_convert import feeds, network
from tests.tiers import some


@settings(max_examples=some(100), deadline=None)
@given(
    array=arrays.arrays(
        np.float32,
        arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
        elements=st.floats(width=32, allow_infinity=False, allow_nan=False),
    ),
    data=st.data(),
)
def test_the_largest_element_of_each_scale_is_127(array, data):
    dims = tuple(j for j in range(array.ndim) if data.draw(st.booleans()))
    others = tuple(j for j in range(array.ndim) if j not in dims)
    largest = np.abs(array).max(axis=others, keepdims=True, initial=0.0).astype(np.float32)
    scales = np.maximum(largest / np.float32(127.0), np.float32(2.0**-120))
    found = contraction._coded(array, dims)
    np.testing.assert_array_equal(found.codes, nearest(array / scales, np.dtype(np.int8)))
    np.testing.assert_array_equal(found.scales, scales.reshape([array.shape[j] for j in dims]))


def test_parts_of_a_large_constant_are_coded_as_the_whole_is(monkeypatch):
    array = np.random.default_rng(0).standard_normal((37, 11)).astype(np.float32)
    for dims in ((), (0,), (1,), (0, 1)):
        whole = contraction._coded(array, dims)
        with monkeypatch.context() as few:
            few.setattr(contraction, "NEAR", 40)
            parts = contraction._coded(array, dims)
        np.testing.assert_array_equal(parts.codes, whole.codes)


def test_calibrating_makes_the_codes_of_a_weight_once(monkeypatch):
    made = []
    coded = contraction._coded
    monkeypatch.setattr(contraction, "_coded", lambda array, dims: made.append((id(array), dims)) or coded(array, dims))
    calibrated(optimise(compiler.load(network())), feeds(), "int8")
    assert made
    assert len(made) == len(set(made))
