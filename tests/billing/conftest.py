"""Fixtures of the billing tests."""

from tests.sales.conftest import market

__all__ = ["market"]
