"""Bounds over all programs, from bounds of those that have some contractions on the planes, or on the vector units.

Each contraction that may be on either kind of unit is on one of them. A program of fewer than ``aim`` cycles has none on the
vector units whose head, work there and tail together are as many: those are on the planes, which makes heads and tails
longer and rules out more. What is left has a bound, and all programs that of the two which is less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler.bounds.problem import Found, Problem

ROUNDS = 5  # of doubling what a contraction would have to take elsewhere than on the planes
LOOKED_AT = 1200  # operations of all the cases that are looked at, if they promise more than one part in WORTH
ALONE = 300  # of those with one contraction on the vector units
WORTH = 100
FEWEST = 2  # cases without which there is no answer: all contractions on the planes, and one aim

Bound = Callable[[Problem], Found]


def least_interval(problem: Problem, interval: Bound) -> Found:
    """A bound of all programs, and what it becomes when contractions that take too long elsewhere are on the planes."""
    best, beyond = interval(problem), 0
    for _ in range(ROUNDS):
        beyond = max(2 * max(beyond, best[0]), 1)
        narrower = problem.on_planes_beyond(beyond)
        if not narrower.planes:
            break
        found = interval(narrower)
        best = max(best, (min(beyond, found[0]), found[1]), key=_cycles)
        if found[0] < beyond:
            break
    return best


def least_latency(problem: Problem, latency: Bound) -> Found:
    """The largest aim found that no program goes below, between what is known of all and what holds of programs that have
    every contraction on the planes."""
    cases = _Cases(problem, latency, LOOKED_AT // max(1, len(problem.nodes)))
    best = cases.of(problem)
    if not problem.contested or cases.left < FEWEST:
        return best
    together = cases.of(problem.on(frozenset(problem.contested)))
    cases.found = best
    aim = high = together[0]
    while best[0] < high and cases.left > 0:
        cases.left -= 1
        found = cases.below(aim)
        best = max(best, (min(aim, found[0]), found[1]), key=_cycles)
        if found[0] < aim:
            high = aim
        if high - best[0] <= max(1, best[0] // WORTH):
            break
        if aim == together[0]:
            cases.look_at(ALONE // len(problem.nodes), aim)
        aim = (best[0] + high + 1) // 2
    return best


@dataclass
class _Cases:
    """``narrow``: what programs surely are that take less than the shortest aim that was too high, and ``found``, their
    bound; ``elsewhere``: bounds of
    programs with one contraction on the vector units; ``left``: bounds that may still be counted."""

    narrow: Problem
    latency: Bound
    left: int
    found: Found | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)

    def of(self, case: Problem) -> Found:
        self.left -= 1
        return self.latency(case)

    def below(self, aim: int) -> Found:
        """A bound of programs of fewer than ``aim`` cycles."""
        case = self.narrow
        found = self.found or self.of(case)
        while found[0] < aim and self.left > 0:
            taken = {name: max(self.elsewhere.get(name, 0), case.elsewhere_takes(name)) for name in case.contested}
            on_planes = frozenset(name for name, cycles in taken.items() if cycles >= aim)
            if not on_planes:
                break
            case = case.on(on_planes)
            found = self.of(case)
        if found[0] < aim:
            self.narrow, self.found = case, found
        return found

    def look_at(self, count: int, aim: int) -> None:
        """Bounds with the longest contractions that programs of fewer than ``aim`` cycles may have on the vector units."""
        longest = sorted(self.narrow.contested.items(), key=lambda item: (-item[1], item[0]))
        for name, _ in longest[:count]:
            found = self.of(self.narrow.on(frozenset(), frozenset([name])))
            self.elsewhere[name] = min(aim, found[0])


def _cycles(found: Found) -> int:
    return found[0]
