"""Gates that close below: equal results with the clip in front, and a map behind the planes that is one step shorter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.terms import arg, const, expression
from compiler.ir.types import DType
from compiler.numerics.scalar import evaluate
from compiler.passes.legalise import kept_behind
from compiler.precision.clamps import clamped
from compiler.precision.encoding import steps
from compiler.precision.reciprocals import without_divisions
from tests.tiers import some

X = arg(-1, DType.F32)


def values(term, x):
    made = [(s.op, s.args, s.dtype.numpy, s.imm) for s in expression(term).steps]
    return evaluate(made, lambda _: np.asarray(x, np.float32), lambda _: np.zeros(1))


def gated(x, slope, height, high):
    return x * (x * slope + height).op("max", 0.0).op("min", high)


def hard_swish(x):
    return without_divisions(x * (x + 3.0).op("max", 0.0).op("min", 6.0) / 6.0)


def names(term):
    return [s.op for s in expression(term).steps if s.op not in ("arg", "const")]


def test_a_hard_swish_keeps_its_clip_behind_the_planes():
    biased = X + arg(2, DType.F32)
    made = clamped(hard_swish(biased))
    assert names(made) == ["add", "max", "mul", "add", "min", "mul"]
    assert steps(made) == steps(hard_swish(biased))
    kept = kept_behind(expression(made), targets.load("lpu"))
    assert [s.op for s in kept.steps if s.op not in ("arg", "const")] == ["add", "max"]


@settings(max_examples=some(100))
@given(
    st.floats(2.0**-30, 2.0**30, width=32),
    st.floats(2.0**-30, 2.0**30, width=32),
    st.floats(2.0**-10, 2.0**10, width=32),
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=False), min_size=1, max_size=20),
)
def test_results_are_equal(slope, height, high, numbers):
    at = np.float32(-height / slope)
    near = [at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))]
    for term in (gated(X, slope, height, high), gated(X, slope, height, high) * slope + X):
        np.testing.assert_array_equal(values(clamped(term), [*numbers, *near]), values(term, [*numbers, *near]))


@given(st.floats(2.0**-20, 2.0**20, width=32))
def test_lines_that_are_zero_at_a_float_are_clamped(height):
    term = gated(X, 0.25, height, 1.0)
    assert names(clamped(term)) == ["max", "mul", "add", "min", "mul"]


@pytest.mark.parametrize(
    "term",
    [
        gated(X, -0.25, 0.5, 1.0),  # falls
        gated(X, 0.25, -0.5, 1.0),  # closes above zero
        X * (arg(0, DType.F32) * 0.25 + 0.5).op("max", 0.0),  # a gate on something else
        X * (X * 0.25 + 0.5).op("max", -1.0).op("min", 1.0),  # never quite closed
        X * (X * 0.25 + 0.5).op("max", 0.0).op("min", -1.0),
        X * (X * 0.25 + 0.5).op("min", 1.0),
        X * (X * X + 0.5).op("max", 0.0),
        X + (X * 0.25 + 0.5).op("max", 0.0),
        X * const(0.0, DType.F32).op("max", X),
    ],
    ids=range(9),
)
def test_what_is_no_such_gate_stays(term):
    assert clamped(term) is term
