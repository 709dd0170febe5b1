"""An amount that nobody can mean is refused with the largest one that is allowed."""

from __future__ import annotations

import pytest

from apps.accounts.problems import Problem
from apps.pricing.amounts import MOST, amount_entered, amount_typed
from apps.pricing.rating import Currency

EUR = Currency("EUR", 2)


def test_the_largest_amount_is_accepted() -> None:
    assert amount_entered(str(MOST), currency=EUR) == MOST
    assert amount_typed("1,000,000,000,000,000.00", currency=EUR) == MOST


@pytest.mark.parametrize("text", ["1000000000000000.01", "1" + "0" * 17, "9" * 20])
def test_a_larger_amount_names_the_limit(text: str) -> None:
    with pytest.raises(Problem, match="Enter at most 1,000,000,000,000,000 EUR"):
        amount_entered(text, currency=EUR)
