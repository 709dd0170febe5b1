"""Operators whose results processors disagree about have one defined result, and the table is complete and stable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.expr import FREE
from compiler.numerics.scalar import CODES, NAMES, SCALAR, apply, check, evaluate
from tests.tiers import some

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def one(name, *values, dtype):
    result_type = np.dtype("?") if SCALAR[name].result == "bool" else np.dtype(dtype)
    return apply(name, [np.array([v], dtype) for v in values], result_type)[0]


def test_codes_are_unique_and_cover_the_free_steps():
    assert len(set(CODES.values())) == len(CODES)
    assert set(CODES) == set(SCALAR) | FREE
    assert all(NAMES[code] == name for name, code in CODES.items())


def test_codes_that_binaries_hold_do_not_move():
    expected = {
        "add": 16,
        "div": 19,
        "exp": 26,
        "erf": 40,
        "pow": 42,
        "eq": 50,
        "and": 56,
        "select": 66,
        "cast": 67,
        "isinf": 69,
    }
    assert {name: CODES[name] for name in expected} == expected


@given(dtype=st.sampled_from(INTEGERS), data=st.data())
def test_integer_division_truncates_as_c_and_remainders_fit_it(dtype, data):
    info = np.iinfo(dtype)
    a, b = (data.draw(st.integers(int(info.min), int(info.max))) for _ in range(2))
    quotient, rest, modulo = (int(one(op, a, b, dtype=dtype)) for op in ("div", "fmod", "mod"))
    if b == 0:
        assert (quotient, rest, modulo) == (0, 0, 0)
        return
    expected = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    width = 2 ** (8 * np.dtype(dtype).itemsize)
    assert (quotient - expected) % width == 0
    assert rest == a - expected * b
    assert modulo == a % b


@given(a=st.floats(-1e6, 1e6), b=st.floats(-1e3, 1e3).filter(bool))
def test_float_modulo_takes_the_divisors_sign(a, b):
    ours = one("mod", a, b, dtype="f8")
    reference = np.mod(np.float64(a), np.float64(b))
    assert ours == reference
    assert np.signbit(ours) == np.signbit(reference)


@given(base=st.integers(-9, 9), exponent=st.integers(-3, 12))
def test_integer_powers_wrap_and_negative_exponents_truncate(base, exponent):
    ours = int(one("pow", base, exponent, dtype="i4"))
    if exponent < 0:
        assert ours == {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
    else:
        assert (ours - base**exponent) % 2**32 == 0


@pytest.mark.parametrize("dtype", INTEGERS)
def test_casts_from_float_saturate_and_take_nan_to_zero(dtype):
    info = np.iinfo(dtype)
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -0.9, 127.5])
    got = apply("cast", [x], np.dtype(dtype))
    assert got.dtype == dtype
    assert [int(v) for v in got] == [0, info.max, info.min, info.max, info.min, 2, 0, 127]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4"])
def test_the_nearest_whole_number_is_even_at_half_and_saturates(dtype):
    info = np.iinfo(dtype)
    x = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, 3.4999, 2e9 * 2], "f4")
    got = apply("nearest", [x], np.dtype(dtype))
    assert got.dtype == dtype
    assert [int(v) for v in got] == [0, info.max, info.min, 0, 2, 2, 3, info.max]


@settings(max_examples=some(100))
@given(a=st.integers(-(2**31), 2**31 - 1), b=st.floats(-1e6, 1e6, width=32))
def test_scaling_a_whole_number_rounds_it_first_and_then_the_product(a, b):
    got = apply("scale", [np.array([a], "i4"), np.array([b], "f4")], np.dtype("f4"))[0]
    assert got == np.float32(np.float64(np.float32(a)) * np.float64(np.float32(b)))


@given(a=st.floats(-1e6, 1e6, width=32), b=st.floats(-1e6, 1e6, width=32), c=st.floats(-1e6, 1e6, width=32))
def test_multiply_and_add_rounds_after_each(a, b, c):
    x, y, z = (np.array([v], "f4") for v in (a, b, c))
    got = apply("muladd", [x, y, z], np.dtype("f4"))
    assert got.tobytes() == apply("add", [apply("mul", [x, y], np.dtype("f4")), z], np.dtype("f4")).tobytes()


@given(a=st.integers(-(2**31), 2**31 - 1), b=st.floats(-1e6, 1e6, width=32), c=st.floats(-1e6, 1e6, width=32))
def test_multiply_and_add_takes_a_whole_number_as_scaling_does(a, b, c):
    x, y, z = np.array([a], "i4"), np.array([b], "f4"), np.array([c], "f4")
    got = apply("muladd", [x, y, z], np.dtype("f4"))
    assert got.tobytes() == (apply("scale", [x, y], np.dtype("f4")) + z).tobytes()


def test_casts_between_other_types():
    assert list(apply("cast", [np.array([300, -1], "i4")], np.dtype("u1"))) == [44, 255]
    assert list(apply("cast", [np.array([0.0, 0.5, np.nan])], np.dtype("?"))) == [False, True, True]
    assert list(apply("cast", [np.array([True, False])], np.dtype("f2"))) == [1.0, 0.0]


@given(a=st.floats(width=32), b=st.floats(width=32))
def test_minimum_and_maximum_pass_nan_on_and_settle_signed_zeros(a, b):
    low, high = one("min", a, b, dtype="f4"), one("max", a, b, dtype="f4")
    if np.isnan(a) or np.isnan(b):
        assert np.isnan(low)
        assert np.isnan(high)
    elif a == b == 0:
        assert np.signbit(low) == np.signbit(high) == np.signbit(np.float32(a))
    else:
        assert (low, high) == (min(np.float32(a), np.float32(b)), max(np.float32(a), np.float32(b)))


def test_shifts_by_the_width_are_defined():
    assert list(apply("shl", [np.array([1, 1, 3], "i4"), np.array([31, 32, 1], "i4")], np.dtype("i4"))) == [
        -(2**31),
        0,
        6,
    ]
    assert list(apply("shr", [np.array([-8, -8], "i1"), np.array([2, 9], "i1")], np.dtype("i1"))) == [-2, -1]
    assert list(apply("shr", [np.array([200, 200], "u1"), np.array([3, 8], "u1")], np.dtype("u1"))) == [25, 0]


def test_sign_round_and_truth():
    assert [one("sign", v, dtype="f4") for v in (-2.5, -0.0, 7)] == [-1, 0, 1]
    assert [one("round", v, dtype="f4") for v in (0.5, 1.5, -2.5)] == [0, 2, -2]
    assert one("isinf", -np.inf, dtype="f4")
    assert not one("lt", np.nan, 1, dtype="f4")


def test_type_rules_refuse_what_would_lose_digits():
    f4, i1, i4, truth = (np.dtype(t) for t in ("f4", "i1", "i4", "?"))
    assert check("mul", [i1, i1], i4) is None
    assert check("cast", [f4], i1) is None
    assert check("select", [truth, f4, f4], f4) is None
    assert "lose digits" in check("add", [i4, i4], i1)
    assert "not defined" in check("exp", [i4], i4)
    assert "truth value" in check("select", [f4, f4, f4], f4)
    assert "2 arguments" in check("add", [f4], f4)
    assert check("scale", [i4, f4], f4) is None
    assert "whole number" in check("scale", [f4, f4], f4)
    assert check("nearest", [f4], i1) is None
    assert "whole number" in check("nearest", [i4], i1)
    assert check("muladd", [i4, f4, f4], f4) is None
    assert "a number and two floats" in check("muladd", [f4, i4, f4], f4)
    assert "a number and two floats" in check("muladd", [np.dtype("f8"), f4, f4], f4)
    assert "no scalar operator" in check("fma", [f4], f4)
    assert "truth value" in check("lt", [f4, f4], f4)


def test_a_program_is_evaluated_step_by_step():
    f4 = np.dtype("f4")
    steps = [
        ("arg", (), f4, 0),
        ("index", (), np.dtype("i8"), 0),
        ("cast", (1,), f4, None),
        ("mul", (0, 2), f4, None),
        ("const", (), f4, 0.5),
        ("add", (3, 4), f4, None),
    ]
    x = np.array([1, 2, 3], "f4")
    assert list(evaluate(steps, [x].__getitem__, [np.arange(3)].__getitem__)) == [0.5, 2.5, 6.5]
