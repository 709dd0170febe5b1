"""Reports history that was altered behind the database's guards, instead of failing on it."""

from __future__ import annotations

from collections.abc import Callable

# What reading raises where something stands that nobody of ours wrote: a part is missing, or of another type, or no number.
UNREADABLE = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError)


def compared(name: str, compare: Callable[[], list[str]]) -> list[str]:
    """The findings of a comparison; if its data can no longer be read, one finding that says so under `name`."""
    try:
        return compare()
    except UNREADABLE:
        return [f"{name} cannot be read any more: a part of it is not what was written"]
