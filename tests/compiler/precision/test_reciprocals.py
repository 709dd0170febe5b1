"""Divisions of sums by literals become products: fewer passes, values within rounding, never where a step decides on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.terms import arg, const, expression
from compiler.ir.types import DType
from compiler.numerics.scalar import evaluate
from compiler.precision.encoding import steps
from compiler.precision.reciprocals import without_divisions

X = arg(-1, DType.F32)


def value(term, x):
    made = [(s.op, s.args, s.dtype.numpy, s.imm) for s in expression(term).steps]
    return evaluate(made, lambda _: np.asarray([x], np.float32), lambda _: np.zeros(1))[0]


def hard_swish(x):
    return x * (x + 3.0).op("max", 0.0).op("min", 6.0) / 6.0


def names(term):
    return [s.op for s in expression(term).steps if s.op not in ("arg", "const")]


def test_hard_swish_takes_its_division_into_the_literals_of_its_clip():
    made = without_divisions(hard_swish(X))
    assert names(made) == ["mul", "add", "max", "min", "mul"]
    assert steps(made) == 4  # muladd, max, min, mul
    assert steps(without_divisions(hard_swish(X * arg(1, DType.F32) + arg(2, DType.F32)))) == 5


@given(st.floats(-1e4, 1e4, width=32), st.floats(2.0**-20, 2.0**20, width=32))
def test_values_stay_within_rounding(x, divisor):
    for term in (hard_swish(X), X / divisor, (X.op("max", -1.0) + 2.0) / divisor, X * 5.0 / divisor):
        made = without_divisions(term)
        assert "div" not in names(made)
        expected = float(value(term, x))
        largest = max(abs(expected), (abs(x) + 2.0) / divisor if term.args[1].imm == divisor else abs(x))
        assert abs(float(value(made, x)) - expected) <= 2e-6 * largest


@pytest.mark.parametrize(
    "term",
    [
        (X / 3.0).op("floor"),
        (X / 3.0).cast(DType.I32),
        (X / 3.0).op("lt", 1.0),
        X / 0.0,
        X / -3.0,
        X / 3e38,
        X / 2.0**-140,
        const(1.0, DType.F32) / X,
        arg(0, DType.I32) / const(3, DType.I32),
    ],
    ids=lambda t: "-".join(names(t)),
)
def test_what_decides_and_what_has_no_ordinary_reciprocal_is_divided(term):
    assert without_divisions(term) is term
