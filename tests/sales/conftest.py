"""Fixtures of the sales tests."""

from __future__ import annotations

import pytest

from tests.cast import Cast
from tests.sales.market import Market, open_market


@pytest.fixture
def market(cast: Cast) -> Market:
    """An open market."""
    return open_market()
