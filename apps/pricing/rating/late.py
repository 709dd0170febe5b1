"""Compute how many unused executions are released late.

The remaining work of a contract is assumed to occupy the end of the reserved time. Reserved time is late unless it
starts at least the notice period after the release. A release counts from the start of the hour (UTC).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil

HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)
Period = tuple[datetime, datetime]


@dataclass(frozen=True)
class Unused:
    """The unused executions of a contract line, or the unused operations of a quota. `seconds` is the device time per
    execution or operation.
    """

    count: int
    seconds: Fraction


def shared_seconds(duration: Fraction, parts: Sequence[tuple[int, Fraction]]) -> list[Fraction]:
    """Apportion `duration` by weight, and return the seconds per execution of each part. `parts` lists (executions,
    weight per execution).
    """
    whole = sum((count * weight for count, weight in parts), start=Fraction(0))
    return [duration * weight / whole if whole else Fraction(0) for _, weight in parts]


def hour_start(instant: datetime) -> datetime:
    """Return the start of the hour (UTC) that contains `instant`."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def late_before(released: datetime, *, notice_minutes: int) -> datetime:
    """Return the instant before which reserved time counts as late, for a release at `released`."""
    return hour_start(released) + timedelta(minutes=notice_minutes)


def seconds_from(reserved: Iterable[Period], instant: datetime) -> Fraction:
    """Return how many seconds of the reserved periods lie at or after `instant`."""
    spans = (max(end - max(start, instant), timedelta(0)) for start, end in reserved)
    return Fraction(sum(span // _MICROSECOND for span in spans), 10**6)


def late_counts(
    lines: Sequence[Unused], *, reserved: Sequence[Period], released: datetime, notice_minutes: int
) -> list[int]:
    """Return the number of late executions of each line. An execution is late only if all its device time is late."""
    left = seconds_from(reserved, late_before(released, notice_minutes=notice_minutes))
    late = []
    for line in reversed(lines):
        in_time = min(line.count, ceil(left / line.seconds)) if line.seconds else line.count
        left = max(left - in_time * line.seconds, Fraction(0))
        late.append(line.count - in_time)
    return late[::-1]


def free_until(lines: Sequence[Unused], *, reserved: Sequence[Period], notice_minutes: int) -> datetime | None:
    """Return the instant before which a release is free of charge. None if there is no unused work, or if the
    reserved time does not cover all of it.
    """
    left = sum((line.count * line.seconds for line in lines), start=Fraction(0))
    if not left:
        return None
    # From the last instant backwards; `beside` counts the periods that overlap between two instants.
    events = sorted([(end, 1) for _, end in reserved] + [(start, -1) for start, _ in reserved], reverse=True)
    beside, last = 0, None
    for instant, change in events:
        if last is not None and beside:
            seconds = beside * Fraction((last - instant) // _MICROSECOND, 10**6)
            if seconds >= left:
                begins = last - timedelta(microseconds=ceil(left / beside * 10**6))
                return hour_start(begins - timedelta(minutes=notice_minutes)) + HOUR
            left -= seconds
        beside, last = beside + change, instant
    return None
