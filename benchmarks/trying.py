"""Every way to do a task, found by trying: what `apps.planner.solver` is held to.

Written from the rules alone (docs/how-to/evaluate-a-model.md, ADR 0085), without the solver's code: counts by comparing item by
item, bounds from whole numbers, every threshold and every pair of levels in a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import permutations
from math import ceil, comb
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apps.planner.solver import Requirements, Variant

GRID = 10**6  # bounds are multiples of its inverse
LEVELS, PLACES = 50, 16  # levels of each threshold of three parts; statements that are judged of combinations


@dataclass(frozen=True)
class Found:
    """A feasible way, found by trying."""

    price: Decimal
    latency: Fraction
    duration: Fraction
    title: str
    pool: str
    thresholds: tuple[Decimal, ...]
    accuracy: Fraction | None


@dataclass(frozen=True)
class Tried:
    """A combination with its thresholds: counts on the tuning part, and what an item costs there."""

    kind: str
    parts: tuple[Any, ...]
    thresholds: tuple[Decimal, ...]
    right: int
    reached: tuple[int, ...]
    load: Fraction

    @property
    def title(self) -> str:
        names = [part.model for part in self.parts]
        return f"vote of {names[0]}, {names[1]} and {names[2]}" if self.kind == "vote" else " then ".join(names)

    @property
    def latency(self) -> Fraction:
        return sum((part.latency for part in self.parts), Fraction(0))

    @property
    def statement(self) -> tuple[Any, ...]:
        return self.kind, tuple(id(part.evaluated) for part in self.parts), self.thresholds


@dataclass
class Market:
    """What trying needs to know: the task, the error of each bound, and what an execution of each variant costs."""

    variants: list[Variant]
    wanted: Requirements
    error: Fraction
    weights: dict[str, Fraction]

    def found(self, one: Tried, right: int, reached: tuple[int, ...], total: int) -> Found:
        """What a combination comes to with these counts of `total` items."""
        items = self.wanted.items
        often = [items] * len(one.parts)
        if one.kind == "cascade":
            often[1:] = [max(1, ceil(items * (1 - bound(total - on, total, self.error)))) for on in reached]
        price = sum((part.price(count) for part, count in zip(one.parts, often, strict=True)), Decimal(0))
        rest = sum(max(part.latency - part.interval, 0) + part.load for part in one.parts)
        duration = sum((part.interval * count for part, count in zip(one.parts, often, strict=True)), rest)
        accuracy = bound(right, total, self.error)
        return Found(price, one.latency, duration, one.title, one.parts[0].pool, one.thresholds, accuracy)


def tried(variants: list[Variant], wanted: Requirements) -> list[Found]:
    """Every feasible way, the best by the objective first."""
    usable = [one for one in variants if not one.missing]
    by_time = wanted.objective == "device_time"
    weights = {
        one.key: one.interval or Fraction(0) if by_time else Fraction(one.price(wanted.items)) / wanted.items
        for one in usable
    }
    ways = list(_ways(usable))
    taking: dict[Any, int] = {}
    for kind, parts in ways:
        pool = parts[0].pool if kind == "cascade" and len(parts) == 3 else ""
        taking[kind, tuple(id(part.evaluated) for part in parts), pool] = len(parts) if kind == "cascade" else 1
    alone = len({id(one.evaluated) for one in variants})
    error = Fraction(1, 20) / (alone + sum(sorted(taking.values())[::-1][:PLACES]))
    market = Market(variants, wanted, error, weights)
    columns = [column for kind, parts in ways if (column := _column(market, kind, parts)) is not None]
    found = [_single(market, one) for one in usable]
    for column in _shortlist(market, columns):
        right, reached = _counted(column.kind, column.parts, column.thresholds, "test")
        found.append(market.found(column, right, reached, column.parts[0].evaluated.test.total))
    return sorted((one for one in found if _lacking(one, wanted) == set()), key=lambda one: _order(one, wanted))


def _order(one: Found, wanted: Requirements) -> tuple[Any, ...]:
    first = {"cost": one.price, "latency": one.latency, "device_time": one.duration}[wanted.objective]
    return first, one.price, one.latency, one.title, one.pool


def _single(market: Market, one: Any) -> Found:
    right, items = one.evaluated.test.right, market.wanted.items
    duration = items * one.interval + one.latency - one.interval + one.load
    return Found(
        one.price(items), one.latency, duration, one.model, one.pool, (), bound(sum(right), len(right), market.error)
    )


def _ways(variants: list[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Pairs and threes of a pool, each better than the one before; any three that vote, the best one first."""
    for length in (2, 3):
        for parts in permutations(variants, length):
            scores = [sum(part.evaluated.tuning.right) for part in parts]
            if _together(parts) and scores == sorted(set(scores)):
                yield "cascade", parts
    for parts in permutations(variants, 3):
        places = [variants.index(part) for part in parts]
        order = [(-sum(part.evaluated.tuning.right), place) for part, place in zip(parts, places, strict=True)]
        if _together(parts) and order == sorted(order) and all(part.evaluated.tuning.predicted for part in parts):
            yield "vote", parts


def _together(parts: tuple[Any, ...]) -> bool:
    """Different programs on one pool."""
    return len({part.pool for part in parts}) == 1 and len({part.program or part.key for part in parts}) == len(parts)


def _counted(
    kind: str, parts: tuple[Any, ...], thresholds: tuple[Decimal, ...], which: str
) -> tuple[int, tuple[int, ...]]:
    """(right answers, items that reach each further part of a cascade) on one part of the items."""
    answers = [getattr(part.evaluated, which) for part in parts]
    right, reached = 0, [0] * len(thresholds)
    for item in range(answers[0].total):
        if kind == "vote":
            first, second, third = (one.predicted[item] for one in answers)
            winner = 0 if first in (second, third) else 1 if second == third else 0
            right += answers[winner].right[item]
            continue
        place = 0
        while place < len(thresholds) and answers[place].confidence[item] < thresholds[place]:
            reached[place] += 1
            place += 1
        right += answers[place].right[item]
    return right, tuple(reached)


def _column(market: Market, kind: str, parts: tuple[Any, ...]) -> Tried | None:
    """The combination with the thresholds that the tuning part gives it; None where it is one of fewer programs."""
    here = parts[0].evaluated.tuning
    if kind == "vote":
        votes = zip(*(part.evaluated.tuning.predicted for part in parts), strict=True)
        if not any(first != second == third for first, second, third in votes):
            return None
        thresholds: tuple[Decimal, ...] | None = ()
    else:
        thresholds = _pair(market, parts) if len(parts) == 2 else _three(market, parts)
    if thresholds is None:
        return None
    right, reached = _counted(kind, parts, thresholds, "tuning")
    if kind == "cascade" and (not all(reached) or min(thresholds) < Decimal("0.00005")):  # reads as 0.00 %
        return None
    often = reached if kind == "cascade" else (here.total,) * 2
    load = market.weights[parts[0].key] * here.total
    load += sum(market.weights[part.key] * count for part, count in zip(parts[1:], often, strict=True))
    return Tried(kind, parts, thresholds, right, reached, load / here.total)


def _should(market: Market, parts: tuple[Any, ...], right: int) -> bool:
    """Whether the share of right answers on the tuning part would do on the other one."""
    here, there = parts[0].evaluated.tuning.total, parts[0].evaluated.test.total
    wanted = market.wanted.accuracy
    return wanted is not None and bound(right * there // here, there, market.error) >= wanted


def _pair(market: Market, parts: tuple[Any, ...]) -> tuple[Decimal, ...]:
    """The lowest threshold that should do, else the lowest of those with the most right answers."""
    thresholds = sorted({Decimal(0), *parts[0].evaluated.tuning.confidence})
    right = [_counted("cascade", parts, (threshold,), "tuning")[0] for threshold in thresholds]
    enough = [threshold for threshold, count in zip(thresholds, right, strict=True) if _should(market, parts, count)]
    return (enough[0] if enough else thresholds[right.index(max(right))],)


def _levels(part: Any) -> list[Decimal]:
    distinct = sorted(set(part.evaluated.tuning.confidence))
    most = min(LEVELS, len(distinct))
    return [distinct[(place + 1) * len(distinct) // most - 1] for place in range(most)]


def _three(market: Market, parts: tuple[Any, ...]) -> tuple[Decimal, ...] | None:
    """Of the pairs of levels that send items to both, the cheapest that should do, else the cheapest of the most right."""
    best: tuple[Any, ...] | None = None
    for low, first in enumerate(_levels(parts[0])):
        for high, second in enumerate(_levels(parts[1])):
            right, reached = _counted("cascade", parts, (first, second), "tuning")
            if not all(reached):
                continue
            cost = sum(market.weights[part.key] * count for part, count in zip(parts[1:], reached, strict=True))
            enough = _should(market, parts, right)
            rank = (not enough, 0 if enough else -right, cost, low, high), (first, second)
            best = rank if best is None or rank < best else best
    return None if best is None else best[1]


def _shortlist(market: Market, columns: list[Tried]) -> list[Tried]:
    """Half of the places to the best that should meet everything, then to the most right, then in order."""
    wanted, by_latency = market.wanted, market.wanted.objective == "latency"
    ordered = sorted(columns, key=lambda c: (c.latency if by_latency else 0, c.load, c.title, c.parts[0].pool))
    lacking = {id(column): _lacking(_estimated(market, column), wanted) for column in columns}
    best = sorted(ordered, key=lambda c: Fraction(-c.right, c.parts[0].evaluated.tuning.total))
    places: list[Any] = []
    for some, most in (
        ([c for c in ordered if not lacking[id(c)]], PLACES // 2),
        ([c for c in best if lacking[id(c)] <= {"accuracy"}], PLACES),
        (ordered, PLACES),
    ):
        for column in some:
            if column.statement not in places and len(places) < most:
                places.append(column.statement)
    return [column for column in columns if column.statement in places]


def _estimated(market: Market, column: Tried) -> Found:
    """As if the test part had the shares of the tuning part, rounded to the side that promises less."""
    here, there = column.parts[0].evaluated.tuning.total, column.parts[0].evaluated.test.total
    reached = tuple(ceil(Fraction(count * there, here)) for count in column.reached)
    return market.found(column, column.right * there // here, reached, there)


def _lacking(found: Found, wanted: Requirements) -> set[str]:
    """The requirements that it does not meet."""
    short = {
        "accuracy": wanted.accuracy is not None and (found.accuracy or 0) < wanted.accuracy,
        "latency": wanted.latency is not None and found.latency > wanted.latency,
        "duration": wanted.duration is not None and found.duration > wanted.duration,
        "budget": wanted.budget is not None and found.price > wanted.budget,
    }
    return {name for name, is_short in short.items() if is_short}


@cache
def bound(successes: int, trials: int, error: Fraction) -> Fraction:
    """The largest p in steps of 1/10^6 with P(at least so many successes | p) <= error, by whole numbers alone."""
    low, high = 0, GRID  # `low` holds where there was a success, `high` does not
    if successes == 0:
        return Fraction(0)
    while high - low > 1:
        p = (low + high) // 2
        tail = sum(comb(trials, k) * p**k * (GRID - p) ** (trials - k) for k in range(successes, trials + 1))
        low, high = (p, high) if tail * error.denominator <= error.numerator * GRID**trials else (low, p)
    return Fraction(low, GRID)
