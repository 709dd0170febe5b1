"""Whole numbers and instants as the API takes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator

FIRST_YEAR, LAST_YEAR = 1970, 9000


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    return value


Whole = Annotated[int, BeforeValidator(_no_truth_value)]  # Python counts True as 1, JSON does not


def _within_calendar(value: datetime) -> datetime:
    """In UTC; an offset may carry the first and the last day of the calendar beyond it."""
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise ValueError(f"The year must be from {FIRST_YEAR} to {LAST_YEAR}")
    return value.astimezone(UTC)


Instant = Annotated[AwareDatetime, AfterValidator(_within_calendar)]
