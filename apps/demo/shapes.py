"""Computes how demand varies over a week, and the number of executions in each reserved window. Pure functions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

# Of what is reserved, Monday to Sunday.
WEEK = (0.95, 0.97, 0.99, 0.97, 0.91, 0.72, 0.64)
NOISE = 0.05
FULL = (1.0,) * 7
BEFORE_MIDNIGHT = timedelta(seconds=2)
MICROSECOND = timedelta(microseconds=1)


class Piece(NamedTuple):
    """The executions that begin in one window on one day (UTC). The first execution begins at `at`."""

    at: datetime
    executions: int


def midnight(instant: datetime) -> datetime:
    """Return the start of the day (UTC) that contains the instant."""
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def pieces(
    windows: Sequence[tuple[datetime, datetime]], *, volume: int, each: Fraction, week: Sequence[float], seed: str
) -> list[Piece]:
    """Divide a volume into one piece for each day of each window.

    `each` is the duration of one execution in seconds. `week` is the share of the time used on each weekday.
    """
    dice = random.Random(seed)
    found: list[Piece] = []
    left = volume
    for start, end in windows:
        for first, last in _days(start, end):
            room = min(left, int(Fraction((last - first) // MICROSECOND, 10**6) / each))
            weight = week[first.weekday()]
            share = 1.0 if weight == 1.0 else min(1.0, weight + dice.uniform(-NOISE, NOISE))
            count = max(1, int(room * share))
            if room < 1:
                continue
            found.append(Piece(first, count))
            left -= count
    if found and left and week == FULL:  # what was rounded away at the cuts
        last_piece = found.pop()
        found.append(Piece(last_piece.at, last_piece.executions + left))
    return found


def _days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    # A part ends shortly before midnight, so its last result is ready on the same day.
    first = start
    while first < end:
        night = midnight(first) + timedelta(days=1)
        last = min(end, night)
        yield first, (last if last == end and last < night else last - BEFORE_MIDNIGHT)
        first = night
