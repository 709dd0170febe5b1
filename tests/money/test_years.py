"""The sum over a year does not depend on when invoices were issued, on the order of clicks, or on ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cast import Cast
from tests.money.planted import FAULTS, found_after, is_right, planted
from tests.money.years_stored import years_compare
from tests.tiers import some

SEED = 5  # of a year whose orders have voids, credit notes and late cancellations


@settings(max_examples=some(100), deadline=None)
@given(st.integers(0, 2**64))
def test_every_order_of_clicks_comes_to_what_the_year_comes_to(seed: int) -> None:
    assert is_right(seed)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    with planted(fault):
        assert found_after(300) is not None


@pytest.mark.django_db
def test_years_through_the_database_come_to_the_same(cast: Cast) -> None:
    found = years_compare(cast, 1, seed=SEED)
    assert found.orders == 3
    assert 0 < found.void < found.invoices
    assert found.late
    assert found.notes
