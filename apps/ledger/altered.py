"""Reports records that were altered despite the database's guards."""

from __future__ import annotations

from collections.abc import Callable

# What reading raises where something stands that nobody of ours wrote: a part is missing, or of another type, or no number.
UNREADABLE = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError)


def compared(name: str, compare: Callable[[], list[str]]) -> list[str]:
    """Return the findings of a comparison. If the data cannot be read, return one finding that says so."""
    try:
        return compare()
    except UNREADABLE:
        return [f"{name} cannot be read any more: a part of it is not what was written"]
