"""Fixtures of the invoicing tests."""

from tests.dispatch.conftest import scene
from tests.sales.conftest import market

__all__ = ["market", "scene"]
