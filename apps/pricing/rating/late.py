"""Compute how much of the reserved, unused work is released late, in executions.

A contract's remaining work occupies the end of its reserved time, line after line. Reserved time that starts at least
`notice` after the release is released in good time; everything else is late, including time that passed unused. A
release counts from the start of its hour (UTC), so that its cost stays the same for the rest of that hour.
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
    """The unused executions of a line (for a quota, operations), each of which needs `seconds` of device time."""

    count: int
    seconds: Fraction


def shared_seconds(duration: Fraction, parts: Sequence[tuple[int, Fraction]]) -> list[Fraction]:
    """Divide a reservation's `duration` by weight: the seconds for one execution of each part. A part is (executions,
    weight per execution).
    """
    whole = sum((count * weight for count, weight in parts), start=Fraction(0))
    return [duration * weight / whole if whole else Fraction(0) for _, weight in parts]


def hour_start(instant: datetime) -> datetime:
    """The start of the hour (UTC) that contains an instant."""
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def late_before(released: datetime, *, notice_minutes: int) -> datetime:
    """The instant before which reserved time counts as late if it is released at `released`."""
    return hour_start(released) + timedelta(minutes=notice_minutes)


def seconds_from(reserved: Iterable[Period], instant: datetime) -> Fraction:
    """The seconds of the reserved periods [start, end) at or after an instant."""
    spans = (max(end - max(start, instant), timedelta(0)) for start, end in reserved)
    return Fraction(sum(span // _MICROSECOND for span in spans), 10**6)


def late_counts(
    lines: Sequence[Unused], *, reserved: Sequence[Period], released: datetime, notice_minutes: int
) -> list[int]:
    """The number of late executions per line. An execution whose time is released partly in good time does not count as late."""
    left = seconds_from(reserved, late_before(released, notice_minutes=notice_minutes))
    late = []
    for line in reversed(lines):
        in_time = min(line.count, ceil(left / line.seconds)) if line.seconds else line.count
        left = max(left - in_time * line.seconds, Fraction(0))
        late.append(line.count - in_time)
    return late[::-1]


def free_until(lines: Sequence[Unused], *, reserved: Sequence[Period], notice_minutes: int) -> datetime | None:
    """The instant before which a release is free. None if nothing is unused, or if the reserved time does not cover all
    unused work, so that part of it is already late.
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
