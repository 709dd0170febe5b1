"""Candidates beside each other: their order, the frontier, and what could be relaxed where none is feasible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from apps.planner.solver.types import COST, LATENCY, Candidate, Change, Requirements

Rank = tuple[bool, bool, Fraction, Fraction, Fraction, str, str]


def rank_of(candidate: Candidate, objective: str = COST) -> Rank:
    """Feasible before infeasible, then by the objective, then by price, latency, name and pool: the same order every time."""
    price = None if candidate.price is None else Fraction(candidate.price)
    latency = candidate.latency
    first = price if objective == COST else latency if objective == LATENCY else candidate.duration
    nothing = Fraction(0)
    return (
        not candidate.feasible,
        first is None,
        first or nothing,
        price or nothing,
        latency or nothing,
        candidate.title,
        candidate.pool,
    )


def frontier(candidates: Sequence[Candidate]) -> set[int]:
    """Indices of feasible candidates that no other feasible one beats in price, latency and accuracy together."""
    points = [(_point(c), index) for index, c in enumerate(candidates) if c.feasible and c.price is not None]
    front: list[tuple[tuple[Fraction, ...], int]] = []
    for point, index in sorted(points):  # whatever beats a point comes before it
        if not any(_dominates(other, point) for other, _ in front):
            front.append((point, index))
    return {index for _, index in front}


def _point(candidate: Candidate) -> tuple[Fraction, ...]:
    """Smaller is better in each; what is not known counts as worst."""
    worst = Fraction(10**30)
    latency = candidate.latency if candidate.latency is not None else worst
    return (Fraction(candidate.price or 0), latency, -(candidate.accuracy or Fraction(0)))


def _dominates(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def relaxations(candidates: Sequence[Candidate], requirements: Requirements) -> Iterator[Change]:
    """What could be relaxed, cheapest result first: the fewest requirements at once, each only as far as needed."""
    soft = [(index, c) for index, c in enumerate(candidates) if c.gaps and c.price is not None]
    if not soft:
        return
    fewest = min(len(c.gaps) for _, c in soft)
    best: dict[tuple[str, ...], tuple[int, Candidate]] = {}
    for index, candidate in soft:
        names = tuple(name for name, _ in candidate.gaps)
        if len(names) == fewest and (names not in best or _nearer(candidate, best[names][1], requirements)):
            best[names] = (index, candidate)
    for index, candidate in sorted(best.values(), key=lambda pair: (pair[1].price or Decimal(0), pair[0])):
        yield Change(candidate.gaps, index, candidate.total_price or Decimal(0))


def _nearer(one: Candidate, other: Candidate, requirements: Requirements) -> bool:
    """Whether `one` asks for the smaller relative change."""
    return _distance(one, requirements) < _distance(other, requirements)


def _distance(candidate: Candidate, requirements: Requirements) -> Fraction:
    total = Fraction(0)
    for name, value in candidate.gaps:
        wanted = Fraction(getattr(requirements, name))
        total += abs(value - wanted) / (abs(wanted) or 1)
    return total
