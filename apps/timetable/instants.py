"""Instants and durations in whole microseconds, the resolution of the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MICROSECONDS = 1_000_000


def micros_of(instant: datetime) -> int:
    """Return the exact number of microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND


def instant_of(micros: int) -> datetime:
    """Return the aware UTC datetime for a number of microseconds since 1970."""
    return EPOCH + micros * MICROSECOND


def micros_of_seconds(seconds: Fraction) -> Fraction:
    """Convert seconds to an exact number of microseconds."""
    return seconds * MICROSECONDS


def seconds_between(start: datetime, end: datetime) -> Fraction:
    """Return the exact number of seconds between two instants."""
    return Fraction((end - start) // MICROSECOND, MICROSECONDS)


def instant_after(start: datetime, seconds: Fraction) -> datetime:
    """Return the instant `seconds` after `start`, truncated to whole microseconds."""
    return start + int(seconds * MICROSECONDS) * MICROSECOND
