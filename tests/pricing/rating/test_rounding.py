from __future__ import annotations

from decimal import Decimal, Inexact
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pricing.rating import amount_text, canonical_json, decimal_text, exact_sum, multiply, payable_of, shares_of
from apps.pricing.rating.decimals import decimal_of

amounts = st.integers(-(10**45), 10**45).map(lambda n: Decimal(n).scaleb(-40))
exponents = st.integers(0, 4)


@given(amounts, exponents)
def test_nothing_is_lost_by_rounding(exact: Decimal, exponent: int) -> None:
    result = payable_of(exact, exponent=exponent)
    assert Fraction(result.payable) + Fraction(result.carried) + Fraction(result.correction) == Fraction(exact)
    assert result.payable == result.payable.quantize(Decimal(1).scaleb(-exponent))
    assert abs(result.correction) * 2 <= Decimal(1).scaleb(-exponent)
    assert result.carried == 0 or result.payable == 0


@pytest.mark.parametrize(
    ("exact", "payable"),
    [("1.005", "1.00"), ("1.015", "1.02"), ("1.025", "1.02"), ("-1.005", "-1.00"), ("0.01", "0.01")],
)
def test_halves_go_to_the_even_cent(exact: str, payable: str) -> None:
    assert str(payable_of(Decimal(exact), exponent=2).payable) == payable


def test_less_than_a_cent_is_carried_whole() -> None:
    result = payable_of(Decimal("0.0099"), exponent=2)
    assert (result.payable, result.carried) == (0, Decimal("0.0099"))


@given(st.lists(amounts.map(abs), min_size=1, max_size=30), exponents)
def test_printed_lines_add_up_to_what_is_payable(lines: list[Decimal], exponent: int) -> None:
    total = exact_sum(lines)
    payable = payable_of(total, exponent=exponent).payable
    shares = shares_of(payable, lines, exponent=exponent)
    assert sum(shares) == payable
    if payable:
        assert all(
            abs(Fraction(s) - Fraction(a)) < Fraction(1, 10**exponent) for s, a in zip(shares, lines, strict=True)
        )


@given(amounts)
def test_a_value_has_one_text(value: Decimal) -> None:
    assert decimal_of(decimal_text(value), places=40) == value
    assert decimal_text(value + Decimal("0.000")) == decimal_text(value)
    assert Decimal(amount_text(value, exponent=2).replace(",", "")) == value


def test_an_amount_is_shown_whole() -> None:
    assert amount_text(Decimal("-1234567.10000"), exponent=2) == "-1,234,567.10"
    assert amount_text(Decimal("0.00000081920"), exponent=2) == "0.0000008192"
    assert amount_text(Decimal("12"), exponent=0) == "12"


def test_a_product_that_does_not_fit_is_an_error_and_not_a_rounded_number() -> None:
    with pytest.raises(Inexact):
        multiply(Decimal("1." + "3" * 80), Decimal("1." + "3" * 80))


def test_floats_have_no_place_in_a_document() -> None:
    with pytest.raises(TypeError, match="decimals in quotes"):
        canonical_json({"a": [1, {"b": 0.1}]})
