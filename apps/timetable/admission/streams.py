"""How long a device is taken by programs that run one after another: one rule for quotes, plans and dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Stream:
    """Executions of one program that follow each other, in seconds of device time: `each` between two of them, `first` what
    the first takes longer, `load` until the program is on the device."""

    executions: int
    each: Fraction
    first: Fraction = Fraction(0)
    load: Fraction = Fraction(0)


def setup_of(streams: Sequence[Stream]) -> Fraction:
    """The part of a window that comes once, whatever runs in it. A device holds one program at a time: each is loaded when the
    pipeline of the one before has drained."""
    return sum((one.load + one.first for one in streams), Fraction(0))


def duration_of(streams: Sequence[Stream]) -> tuple[Fraction, Fraction]:
    """(all of it, the part that comes once) for one window."""
    setup = setup_of(streams)
    return sum((one.executions * one.each for one in streams), setup), setup
