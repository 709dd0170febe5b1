"""History that somebody altered is named, and never an error of ours."""

from __future__ import annotations

from collections.abc import Callable

# What reading raises where something stands that nobody of ours wrote: a part is missing, or of another type, or no number.
UNREADABLE = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError)


def compared(name: str, compare: Callable[[], list[str]]) -> list[str]:
    """What a comparison finds; or, named, that what it is about cannot be read any more."""
    try:
        return compare()
    except UNREADABLE:
        return [f"{name} cannot be read any more: a part of it is not what was written"]
