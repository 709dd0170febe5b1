"""A few random histories, and some of the orders of one lost answer; `python -m benchmarks.stripe 2000` lives two thousand
histories, `python -m benchmarks.faults --answers` all orders."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from apps.collection import gateway
from tests.cast import Cast
from tests.stripe.histories import told
from tests.stripe.orders import faults, orders
from tests.stripe.stage import contract_for
from tests.tiers import part, some

pytestmark = pytest.mark.django_db
SEEDS = some(6)
EVERY = 397  # of the 6,000 orders; it divides none of the counts of which they are made


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gateway, "PAUSES", (0.0,) * 4)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_whatever_happens_both_sides_are_equal_once_it_is_settled(cast: Cast) -> None:
    contract = contract_for(cast)
    for number in range(SEEDS):
        found = told(cast, contract, f"1:{number}")
        assert found.wrong == []
        assert found.missed == ""


def test_a_lost_answer_is_settled_in_every_order(cast: Cast) -> None:
    contract = contract_for(cast)
    for order in part(list(orders())[::EVERY]):
        assert faults(cast, contract, order) == []
