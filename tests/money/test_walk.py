"""The same equalities through the database, with the product's own services."""

from __future__ import annotations

import pytest

from tests.cast import Cast
from tests.money.walk import KINDS, book_change, walk
from tests.sales.market import open_market


@pytest.mark.django_db
def test_quote_preview_hold_ledger_invoice_and_recomputation_are_one_number(cast: Cast) -> None:
    outcome = walk(cast, open_market(devices=2, change=book_change), 2 * len(KINDS))
    assert set(outcome.kinds) == set(KINDS)
    assert 0 < outcome.full < outcome.contracts
    assert set(outcome.named) == {
        "served",
        "hours",
        "unused",
        "charged for unused",
        "late cancellation",
        "contract minimum",
    }
    assert outcome.released > 0
    assert outcome.replayed > 10_000
