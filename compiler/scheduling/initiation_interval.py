"""The initiation interval (II): cycles after which the next inference may begin. The shortest one found, and the arenas it takes.

It is at least what the busiest kind of unit works in one inference (the resource bound, ResMII) and need not exceed the latency.
Source: B. R. Rau, "Iterative modulo scheduling", 1996.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler.isa import Machine
from compiler.scheduling.alap import alap_times
from compiler.scheduling.modulo_scheduler import NEVER, Common, InfeasibleII, ModuloScheduler, Placement
from compiler.scheduling.priorities import urgency
from compiler.scheduling.problem import Problem
from compiler.scheduling.reserved_slots import SlotScheduler, Spent
from compiler.tiling.budget import passes

OBJECTIVES = ("balanced", "latency", "interval", "throughput")
FREQUENT = ("interval", "throughput")  # these let latency grow in order to shorten the interval
IIS = 8  # IIs tried
FEWEST = 3  # and for the longest programs
CLOSE = 10  # part of an II that these do not look for any more
RUNS = 32  # placements tried where the interval is all that counts
SLOTTED = 1 << 30  # instead of a part: chains go to reserved slots
# Parts of an II that a tile may then wait for a place beside another.
PATIENCE = {"interval": (64, 16, 4, 1), "throughput": (8, 1)}


class Repeated(NamedTuple):
    """A placement that may begin anew every ``ii`` cycles, with ``copies`` arenas taken in turn."""

    placed: Placement
    ii: int
    copies: int


class _Way(NamedTuple):
    """How tiles are placed: none before its ``release``, waiting up to a ``part`` of the II (0: not) to leave no gaps,
    or chains in reserved slots. ``common``: of all IIs tried."""

    release: Sequence[int]
    part: int
    common: Common


def repeated(
    p: Problem, machine: Machine, once: Placement, copies: int, objective: str, longest: int = NEVER
) -> Repeated:
    """The order of ``once`` at the shortest II found, by bisection between the busiest unit's cycles and the latency,
    towards which the longest programs go in growing steps from below until a first II does, and then in long steps.

    ``copies``: arenas at most. Inferences that overlap take units from each other, so a shorter II costs latency.
    ``objective``: "latency" lets it not grow at all, "interval" up to ``longest`` cycles, "throughput" as far as it
    will; "balanced" by the factor by which the II is longer than the busiest unit's cycles. With no such II,
    inferences follow each other.
    """
    late, least = alap_times(p, once, pinned=True), busiest(p, machine, once)
    allowed = passes(2 * len(p.beats), IIS)
    attempts = _Attempts(p, machine, urgency(late, p), copies, _ways(late, objective, few=allowed == 1))
    attempts.once_each = allowed == 1 and objective not in FREQUENT
    best = Repeated(once, max(1, once.latency), 1)
    low, wanted = least - 1, least + (best.ii - least) // (16 if objective in FREQUENT else 4)
    runs, step = _runs(p, allowed, objective), wanted - least
    while attempts.made < runs and low < wanted < best.ii:
        placed = attempts.at(wanted, low + 1, _allowed(once.latency, wanted, least, objective, longest))
        if placed is None:
            low, step = wanted, 2 * step
        else:
            best = Repeated(placed, wanted, taken(p, placed, wanted))
        wanted = (low + best.ii) // 2
        if allowed == 1 and best.placed is once:
            wanted = min(wanted, low + step)
        elif attempts.once_each:
            # Shorter IIs tend to cost more latency than the best one did.
            floor = max(low, least * best.placed.latency // once.latency if objective == "balanced" else least)
            if (best.ii - floor) * CLOSE < best.ii:
                break
            wanted = floor + (best.ii - floor) // (2 if placed is None else 4)
    return best


def _runs(p: Problem, allowed: int, objective: str) -> int:
    """Placements that may be tried; ``allowed``: IIs."""
    if objective in FREQUENT:
        return max(3 * FEWEST, passes(len(p.beats) // 2, RUNS))
    return max(2 * FEWEST, 2 * allowed)


def _ways(late: Sequence[int], objective: str, few: bool) -> list[_Way]:
    """As late as the order allows, so that buffers live shortly, or at once; where latency counts for nothing, closely too.
    ``few``: as late, with and without patience."""
    if objective in FREQUENT:
        ways = [_Way(release, part, Common()) for part in (*PATIENCE[objective], 0) for release in (late, ())]
        return [ways[0], ways[-2]] if few else [_Way(late, SLOTTED, Common()), *ways]
    return [_Way(late, 0, Common()), _Way((), 0, Common())]


def _allowed(once: int, ii: int, least: int, objective: str, longest: int) -> int:
    """The longest latency that an II may cost."""
    if objective == "latency":
        return once
    if objective == "balanced":
        return once * ii // least
    return max(once, longest) if objective == "interval" else NEVER


@dataclass
class _Attempts:
    """Placements of jobs at one II after the other. ``ways``: that are left, the one that did last first; ``once_each``: what
    failed is not tried again; ``made``: how many."""

    p: Problem
    machine: Machine
    jobs: list[int]
    copies: int
    ways: list[_Way]
    once_each: bool = False
    made: int = 0

    def at(self, ii: int, safe: int, limit: int) -> Placement | None:
        """The first placement found at an II that ends by the ``limit``; none shorter than ``safe`` is tried any more."""
        for way in list(self.ways):
            self.made += 1
            way.common.safe = safe
            placed = self._placed(ii, way, limit)
            if placed is not None:
                self.ways.remove(way)
                self.ways.insert(0, way)  # what did at one II is the first to be tried at the next
                return placed
            if way.common.spent or (self.once_each and len(self.ways) > 1):
                self.ways.remove(way)
        return None

    def _placed(self, ii: int, way: _Way, limit: int) -> Placement | None:
        p, machine, jobs, copies = self.p, self.machine, self.jobs, self.copies
        slack = ii // way.part if way.part else 0
        common = None if slack else way.common
        try:
            if way.part == SLOTTED:
                placed = SlotScheduler(p, machine, jobs, ii, way.release, copies).run()
                return placed if placed.latency <= limit else None
            return ModuloScheduler(p, machine, jobs, ii, way.release, copies, limit, slack, common).run()
        except InfeasibleII as short:
            way.common.spent |= isinstance(short, Spent)
            return None


def taken(p: Problem, placed: Placement, ii: int) -> int:
    """Arenas that a placement needs at an II: the longest life of a buffer that moves, in IIs."""
    lives = (last - first for first, last, moves in zip(placed.first, placed.last, p.moves, strict=True) if moves)
    return max(1, -(-max(lives, default=0) // ii))


def busiest(p: Problem, machine: Machine, placed: Placement) -> int:
    """Cycles that the busiest kind of unit works in one inference."""
    work: Counter[str] = Counter()
    for n, start in enumerate(placed.start):
        if start >= 0:
            work[p.unit[n]] += p.beats[n]
    return max((-(-beats // machine.unit(unit).instances) for unit, beats in work.items()), default=1)
