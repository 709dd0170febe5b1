"""The table of scalar identities: each line holds for numbers, and patterns find what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.terms import Term, arg, const, expression, term_of
from compiler.ir.types import DType
from compiler.numerics.scalar import evaluate
from compiler.passes import identities
from compiler.passes.identities import GATE, MULTIPLY_ADD, RECIPROCAL, TIMES, times
from compiler.passes.multiply_add import fused
from compiler.passes.patterns import WHOLE, made, matches, pattern, rewritten, rule
from tests.tiers import some

F32 = DType.F32
X, Y, Z = (arg(i, F32) for i in range(3))


def value(term, numbers):
    """The term as float32 numbers are given for its operands; ``times`` is a product."""
    steps = [("mul" if s.op == "times" else s.op, s.args, s.dtype.numpy, s.imm) for s in expression(term).steps]
    with np.errstate(all="ignore"):
        return float(evaluate(steps, lambda i: np.float32(numbers[i]), np.float32))


def terms_of(text, literals):
    """The pattern as a term: names are operands, or the literals given."""
    names = {"x": X, "y": Y, "z": Z, "u": X, "v": Y, **{n: const(v, F32) for n, v in literals.items()}}
    wanted = _plain(pattern(text))
    return made(wanted, names, F32)


def _plain(wanted):
    """Without names of parts, a product as ``mul``."""
    if isinstance(wanted, tuple):
        name, *rest = wanted
        return _plain(rest[1]) if name == ":=" else ("mul" if name == "product" else name, *map(_plain, rest))
    return wanted


LINES = [
    "x * y + z -> muladd(x, y, z)",
    "x * (y + 1) -> x * y + x",
    "x / c -> x * (1 / c)",
    "times(max(u, c), f) -> max(times(u, f), c * f)",
    "times(min(u, c), f) -> min(times(u, f), c * f)",
    "times(u + c, f) -> u * f + c * f",
    "times(u * c, f) -> u * (c * f)",
    "times(x, f) -> x * f",
]
numbers = st.floats(-8, 8, width=16)
literals = st.floats(0.25, 8, width=16)


@settings(max_examples=some(100), deadline=None)
@given(st.sampled_from(LINES), st.tuples(numbers, numbers, numbers), literals, literals)
def test_both_sides_of_a_line_are_one_number_but_for_rounding(line, given_, c, f):
    before, after = (terms_of(side, {"c": c, "f": f}) for side in line.split("->"))
    assert value(after, given_) == pytest.approx(value(before, given_), rel=1e-5, abs=1e-4)


def test_the_lines_that_are_tested_are_those_of_the_tables():
    known = {(each.before, each.after) for line in LINES for each in [rule(line)]}
    for table in (GATE, RECIPROCAL, TIMES):
        assert {(r.before, r.after) for r in table} <= known
    assert _plain(MULTIPLY_ADD[0].before) == rule(LINES[0]).before


@settings(max_examples=some(100), deadline=None)
@given(st.tuples(numbers, numbers, numbers))
def test_a_multiply_add_keeps_every_bit(given_):
    for term in (X * Y + Z, Z + X * Y, X * 2.0 + Y * Z, (X + Y) * Z + X):
        taken = term_of(fused(expression(term)))
        assert taken.name == "muladd"
        assert value(taken, given_) == value(term, given_)


def test_a_product_that_others_read_stays():
    product = X * Y
    assert "muladd" not in fused(expression((product + Z) * product)).ops


def test_sums_and_products_are_found_in_both_orders_and_quotients_in_one():
    assert [found["x"] for found in matches(pattern("x * c"), const(2.0, F32) * X)] == [X]
    assert not list(matches(pattern("x / c"), const(2.0, F32) / X))
    assert len(list(matches(pattern("x + y"), X + Y))) == 2


def test_names_say_what_they_stand_for():
    two = const(2.0, F32)
    assert not list(matches(pattern("u + c"), two + two))
    assert [found["x"] for found in matches(pattern("x * x"), X * X)] == [X, X]
    assert not list(matches(pattern("x * x"), X * Y))
    (found,) = matches(pattern("(p := scale(x, y)) + z"), Term("scale", (X, Y), F32) + Z)
    assert found["p"].name == "scale"
    assert found[WHOLE].name == "add"


def test_a_condition_decides():
    assert rewritten(X / 4.0, RECIPROCAL) == X * 0.25
    for divisor in (0.0, -2.0, 1e-45):
        assert rewritten(X / divisor, RECIPROCAL) is None


def test_a_factor_goes_behind_clips_into_one_literal():
    hard = (X + 3.0).op("max", 0.0).op("min", 6.0)
    assert times(hard, 0.5) == (X * 0.5 + 1.5).op("max", 0.0).op("min", 3.0)
    assert identities.times(X * 4.0, 0.5) == X * 2.0


def test_what_is_no_pattern_is_refused():
    with pytest.raises(ValueError, match="is no pattern"):
        pattern("x if y else z")
