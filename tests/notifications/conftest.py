"""Fixtures of the notifications tests."""

from tests.dispatch.conftest import scene
from tests.sales.conftest import market

__all__ = ["market", "scene"]
