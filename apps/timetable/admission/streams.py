"""The time for which programs occupy a device when they run one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Stream:
    """Consecutive executions of one program, in seconds of device time.

    `each`: the time from the start of one execution to the start of the next. `first`: the extra time of the first
    execution. `load`: the time to load the program.
    """

    executions: int
    each: Fraction
    first: Fraction = Fraction(0)
    load: Fraction = Fraction(0)


def setup_of(streams: Sequence[Stream]) -> Fraction:
    """Return the setup time of a window in seconds. The setup time does not depend on the number of executions."""
    return sum((one.load + one.first for one in streams), Fraction(0))


def duration_of(streams: Sequence[Stream]) -> tuple[Fraction, Fraction]:
    """Return (total, setup) in seconds for one window that runs these streams."""
    setup = setup_of(streams)
    return sum((one.executions * one.each for one in streams), setup), setup
