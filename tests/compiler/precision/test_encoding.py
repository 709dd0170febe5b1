"""Codes stand for what they should, and a program stores exactly what the encoding says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.terms import arg, const, expression
from compiler.ir.types import DType
from compiler.numerics.scalar import evaluate
from compiler.precision.encoding import Encoding, reading, steps, storing
from compiler.precision.plan import encoding

ENCODINGS = st.builds(
    Encoding,
    st.sampled_from([DType.I8, DType.U8]),
    st.floats(2.0**-20, 4.0, width=32),
    st.integers(0, 100),
)


def value(term, x):
    steps = [(s.op, s.args, s.dtype.numpy, s.imm) for s in expression(term).steps]
    return evaluate(steps, lambda _: x, lambda _: np.zeros(1))


def no_constants(term, factor, addend):
    return None


@settings(deadline=None)
@given(ENCODINGS, st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=8))
def test_a_stored_value_is_the_encoding_of_it_and_is_read_as_what_the_code_means(kind, numbers):
    x = np.array(numbers, np.float32)
    codes = value(storing(arg(0, DType.F32), kind, no_constants), x)
    np.testing.assert_array_equal(codes, kind.encode(x))
    np.testing.assert_array_equal(value(reading(arg(0, kind.dtype), kind), codes), kind.decode(codes))


@settings(deadline=None)
@given(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32), st.integers(0, 2**32 - 1))
def test_codes_are_half_a_step_away_at_most_over_the_range_they_were_made_for(a, b, seed):
    low, high = min(a, b), max(a, b)
    kind = encoding(low, high)
    x = np.random.default_rng(seed).uniform(min(low, 0), max(high, 0), 50).astype(np.float32)
    assert (np.abs(kind.decode(kind.encode(x)) - x) <= 0.5001 * kind.scale + 1e-6 * abs(x)).all()


@settings(deadline=None)
@given(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32))
def test_zero_keeps_its_value_so_that_padding_is_exact(a, b):
    for plain in (False, True):
        kind = encoding(min(a, b), max(a, b), plain_zero=plain)
        zero = np.zeros(1, np.float32)
        assert kind.decode(kind.encode(zero)) == zero
        assert not (plain and kind.zero)


@pytest.mark.parametrize(("dtype", "zero", "gone"), [(DType.U8, 0, True), (DType.I8, 0, False), (DType.U8, 9, False)])
def test_relu_needs_no_step_where_codes_begin_at_zero(dtype, zero, gone):
    kind = Encoding(dtype, 0.1, zero)
    stored = storing(arg(0, DType.F32).op("max", 0.0), kind, no_constants)
    assert ("max" not in [s.op for s in expression(stored).steps]) is gone
    x = np.linspace(-20, 40, 601, dtype=np.float32)
    np.testing.assert_array_equal(value(stored, x), kind.encode(np.maximum(x, 0)))


@settings(deadline=None)
@given(st.floats(-30, 30, width=32), st.sampled_from(["max", "min"]), ENCODINGS)
def test_a_clip_goes_only_where_it_changes_no_code(bound, how, kind):
    x = np.linspace(-300 * kind.scale, 300 * kind.scale, 401, dtype=np.float32)
    stored = storing(arg(0, DType.F32).op(how, bound), kind, no_constants)
    clipped = np.maximum(x, np.float32(bound)) if how == "max" else np.minimum(x, np.float32(bound))
    got = value(stored, x).astype(int)
    assert np.abs(got - kind.encode(clipped)).max() <= 1  # the bound times the scale is rounded once more
    inside = np.abs(clipped - np.float32(bound)) > kind.scale
    np.testing.assert_array_equal(got[inside], kind.encode(clipped)[inside])


def test_the_scale_goes_into_the_constants_of_a_sum():
    kind = Encoding(DType.I8, 0.25)
    made = []

    def leaf(term, factor, addend):
        made.append((term.imm, factor, addend))
        return arg(int(term.imm) + 10, DType.F32)

    total = arg(-1, DType.I32).scaled(arg(3, DType.F32)) + arg(2, DType.F32)
    stored = expression(storing(total, kind, leaf))
    assert [s.op for s in stored.steps if s.op != "arg"] == ["scale", "add", "nearest"]
    assert sorted(made) == [(2, 4.0, 0.0), (3, 4.0, 0.0)]


def test_a_float_sum_takes_its_scale_with_the_constant_that_is_added():
    made = []

    def leaf(term, factor, addend):
        made.append((term.imm, factor, addend))
        return arg(2, DType.F32) if term.imm == 1 else None

    total = arg(-1, DType.F32) + arg(1, DType.F32)
    stored = storing(total, Encoding(DType.I8, 0.5), leaf)
    assert steps(stored) == 2  # a product with an addend, and rounding
    assert (1, 2.0, 0.0) in made


def test_an_expression_that_cannot_be_scaled_is_multiplied_at_its_end():
    kind = Encoding(DType.I8, 0.5)
    stored = expression(storing(arg(0, DType.F32).op("exp"), kind, no_constants))
    assert [s.op for s in stored.steps] == ["arg", "exp", "const", "mul", "nearest"]
    assert const(2.0, DType.F32).imm == stored.steps[2].imm


def test_a_factor_makes_no_operand_that_an_epilogue_has_no_place_for():
    """A value that is used twice keeps its own constants; the factor is a step of its own where they would be too many."""
    made = []

    def leaf(term, factor, addend):
        if term.imm < 0:
            return None
        made.append(term.imm)
        return arg(len(made) + 9, DType.F32)

    scaled = arg(-1, DType.F32) * arg(0, DType.F32) + arg(1, DType.F32)
    gated = scaled * (scaled.op("erf") + 1.0) + arg(2, DType.F32) * 1.5
    kind = Encoding(DType.I8, 0.25, 0)
    assert len(expression(storing(gated, kind, leaf)).reads) == 3
    made.clear()
    alone = scaled + arg(2, DType.F32) * 1.5
    assert 10 in expression(storing(alone, kind, leaf)).reads
