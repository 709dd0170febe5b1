"""Instants and durations as whole microseconds, the finest step of the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MICROSECONDS = 1_000_000


def micros_of(instant: datetime) -> int:
    """Microseconds since 1970; exact, since a datetime has no finer step."""
    return (instant - EPOCH) // MICROSECOND


def instant_of(micros: int) -> datetime:
    """The aware UTC datetime of that many microseconds since 1970."""
    return EPOCH + micros * MICROSECOND


def micros_of_seconds(seconds: Fraction) -> Fraction:
    """A duration in seconds as an exact number of microseconds."""
    return seconds * MICROSECONDS


def seconds_between(start: datetime, end: datetime) -> Fraction:
    """The exact seconds from one instant to another."""
    return Fraction((end - start) // MICROSECOND, MICROSECONDS)


def instant_after(start: datetime, seconds: Fraction) -> datetime:
    """The instant so many whole microseconds, given in seconds, after another."""
    return start + int(seconds * MICROSECONDS) * MICROSECOND
