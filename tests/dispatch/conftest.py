"""Fixtures of the dispatch tests."""

from __future__ import annotations

import pytest

from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market


@pytest.fixture
def scene(cast: Cast) -> Scene:
    """An open market with two devices in each pool."""
    return Scene(open_market(devices=2), cast)
