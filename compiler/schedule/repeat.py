"""Schedules that repeat: the shortest period found at which inferences may follow each other, and the arenas it takes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from compiler.schedule.budget import passes
from compiler.schedule.insert import Insertion, Placement, TooShort
from compiler.schedule.rank import urgency
from compiler.schedule.shift import latest

if TYPE_CHECKING:
    from compiler.isa.machine import Machine
    from compiler.schedule.problem import Problem

PERIODS = 9  # periods tried
NEAR = 33  # the first of them: the busiest unit's cycles and this part of them
SLOWER = 12  # a part of the latency by which it may grow for the sake of the period


class Repeated(NamedTuple):
    """A placement that may begin anew every ``period`` cycles, with ``copies`` arenas taken in turn."""

    placed: Placement
    period: int
    copies: int


def repeated(p: Problem, machine: Machine, once: Placement, copies: int) -> Repeated:
    """The order of ``once`` for the shortest period found that leaves the latency nearly as it is, by bisection.

    ``copies``: arenas at most. With no period below the latency, inferences follow each other.
    """
    late = latest(p, once, pinned=True)
    rank = urgency(late, p)
    least = busiest(p, machine, once)
    best, period, low = once, max(1, once.latency), least - 1
    wanted = least + least // NEAR
    for _ in range(passes(len(p.beats), PERIODS)):
        if not low < wanted < period:
            break
        try:
            placed = Insertion(p, machine, rank, wanted, late, copies).run()
        except TooShort:
            placed = None
        if placed is not None and placed.latency <= once.latency + once.latency // SLOWER:
            best, period = placed, wanted
        else:
            low = wanted
        wanted = (low + period) // 2
    return Repeated(best, period, taken(p, best, period))


def taken(p: Problem, placed: Placement, period: int) -> int:
    """Arenas that a placement needs at a period: the longest life of a buffer that moves, in periods."""
    lives = (last - first for first, last, moves in zip(placed.first, placed.last, p.moves, strict=True) if moves)
    return max(1, -(-max(lives, default=0) // period))


def busiest(p: Problem, machine: Machine, placed: Placement) -> int:
    """Cycles that the busiest kind of unit works in one inference."""
    work: Counter[str] = Counter()
    for n, start in enumerate(placed.start):
        if start >= 0:
            work[p.unit[n]] += p.beats[n]
    return max((-(-beats // machine.unit(unit).instances) for unit, beats in work.items()), default=1)
