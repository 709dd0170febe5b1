"""The time for which programs occupy a device when they run one after another. Quotes, plans and dispatch share these
rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Stream:
    """Consecutive executions of one program, in seconds of device time.

    `each` is the time between two executions. `first` is the extra time of the first execution. `load` is the time to
    load the program.
    """

    executions: int
    each: Fraction
    first: Fraction = Fraction(0)
    load: Fraction = Fraction(0)


def setup_of(streams: Sequence[Stream]) -> Fraction:
    """Return the part of a window that does not depend on the number of executions.

    A device holds one program at a time. It loads a program only after the pipeline of the previous program has
    drained.
    """
    return sum((one.load + one.first for one in streams), Fraction(0))


def duration_of(streams: Sequence[Stream]) -> tuple[Fraction, Fraction]:
    """Return (total, setup) in seconds for one window that runs these streams."""
    setup = setup_of(streams)
    return sum((one.executions * one.each for one in streams), setup), setup
