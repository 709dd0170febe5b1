"""API types for whole numbers, dates and instants."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator

FIRST_YEAR, LAST_YEAR = 1970, 9000
_INSTANT = re.compile(r"-?\d+-\d+-\d+[Tt ].*([Zz]|[+-]\d\d:?\d\d)$")


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    return value


def _digits_read(value: Any) -> Any:
    return "".join(str(unicodedata.decimal(one, one)) for one in value) if isinstance(value, str) else value


# Python counts True as 1, JSON does not.
Whole = Annotated[int, BeforeValidator(_digits_read), BeforeValidator(_no_truth_value)]


def _within_calendar(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise ValueError(f"The year must be from {FIRST_YEAR} to {LAST_YEAR}")
    return value.astimezone(UTC)


def _day_written(value: Any) -> Any:
    # A bare number would be read as seconds since 1970.
    if isinstance(value, (int, float)) or (isinstance(value, str) and "-" not in value[1:]):
        raise ValueError("Enter the date in the form 2026-11-30")
    return value


def _instant_written(value: Any) -> Any:
    if isinstance(value, (int, float)) or (isinstance(value, str) and not _INSTANT.match(value)):
        raise ValueError(
            "Write a date and time with its time zone, for example 2026-11-30T22:00:00Z or 2026-11-30T23:00:00+01:00"
        )
    return value


Day = Annotated[date, BeforeValidator(_day_written)]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant_written), AfterValidator(_within_calendar)]
