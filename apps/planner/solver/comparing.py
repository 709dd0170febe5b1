"""Compare candidates: sort them, find the frontier, and find the requirements to relax if none is feasible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from apps.planner.solver.types import COST, LATENCY, Candidate, Change, Requirements

Rank = tuple[bool, bool, Fraction, Fraction, Fraction, str, str]


def rank_of(candidate: Candidate, objective: str = COST) -> Rank:
    """Return the sort key of a candidate. Feasible candidates come first, in the order of the objective."""
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
    """Return the indices of the feasible candidates that no other candidate dominates in price, latency and accuracy."""
    points = [(_point(c), index) for index, c in enumerate(candidates) if c.feasible and c.price is not None]
    front: list[tuple[tuple[Fraction, ...], int]] = []
    for point, index in sorted(points):  # a point that dominates another comes before it
        if not any(_dominates(other, point) for other, _ in front):
            front.append((point, index))
    return {index for _, index in front}


def _point(candidate: Candidate) -> tuple[Fraction, ...]:
    worst = Fraction(10**30)
    latency = candidate.latency if candidate.latency is not None else worst
    return (Fraction(candidate.price or 0), latency, -(candidate.accuracy or Fraction(0)))


def _dominates(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def relaxations(candidates: Sequence[Candidate], requirements: Requirements) -> Iterator[Change]:
    """Yield the changes that relax the fewest requirements, the cheapest result first."""
    priced = [(index, c) for index, c in enumerate(candidates) if c.gaps and c.price is not None]
    fewest = min((len(c.gaps) for _, c in priced), default=0)
    nearest = _nearest([(index, c) for index, c in priced if len(c.gaps) == fewest], requirements)
    for index, candidate in sorted(nearest, key=lambda pair: (pair[1].price or Decimal(0), pair[0])):
        yield Change(candidate.gaps, index, candidate.total_price or Decimal(0))


def _nearest(priced: Sequence[tuple[int, Candidate]], requirements: Requirements) -> list[tuple[int, Candidate]]:
    best: dict[tuple[str, ...], tuple[int, Candidate]] = {}
    for index, candidate in priced:
        names = tuple(name for name, _ in candidate.gaps)
        if names not in best or _nearer(candidate, best[names][1], requirements):
            best[names] = (index, candidate)
    return list(best.values())


def _nearer(one: Candidate, other: Candidate, requirements: Requirements) -> bool:
    return _distance(one, requirements) < _distance(other, requirements)


def _distance(candidate: Candidate, requirements: Requirements) -> Fraction:
    total = Fraction(0)
    for name, value in candidate.gaps:
        wanted = Fraction(getattr(requirements, name))
        total += abs(value - wanted) / (abs(wanted) or 1)
    return total
