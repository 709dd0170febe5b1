"""Check every variant and the most promising combinations against the requirements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from apps.planner.solver.answers import ERROR, Judged, count_cascade, count_ensemble, judge, judge_single
from apps.planner.solver.checks import RELAXABLE, Figures, checked
from apps.planner.solver.combinations import (
    CASCADE,
    SINGLE,
    Combination,
    TunedCombination,
    Tuner,
    combinations_of,
    weights_of,
)
from apps.planner.solver.comparing import frontier, rank_of, relaxations
from apps.planner.solver.shortlist import LIMIT, shortlist
from apps.planner.solver.types import (
    OBJECTIVES,
    Candidate,
    Capacity,
    Demand,
    Placed,
    Requirements,
    Solution,
    Use,
    Variant,
    idle,
)
from apps.pricing.rating import exact_sum
from apps.timetable.admission.streams import Stream, duration_of

NOWHERE = Placed(None)


def solve(variants: Sequence[Variant], requirements: Requirements, capacity: Capacity = idle) -> Solution:
    """Compare all candidates by the objective, and choose the best feasible candidate.

    `capacity` says when a pool would finish a demand. Raises ValueError if there are no items or variants, or if the
    objective is unknown.
    """
    if requirements.items < 1 or not variants:
        raise ValueError("A plan needs at least one item and one model.")
    if requirements.objective not in OBJECTIVES:
        raise ValueError(f"The objective must be one of {', '.join(OBJECTIVES)}.")
    weights = weights_of(variants, requirements)
    combinations, narrowed = combinations_of(variants, weights)
    bounds = bounds_of(variants, combinations)
    error = ERROR / bounds
    tuner = Tuner(weights, requirements.accuracy, error)
    tuned = [one for one in map(tuner.tune, combinations) if one is not None]
    market = _Market(requirements, capacity, error)
    chosen = shortlist(tuned, requirements, error, market.estimated)
    tested = [*(market.single(variant) for variant in variants), *(market.tested(one) for one in chosen)]
    ordered = sorted(tested, key=lambda one: rank_of(one, requirements.objective))
    front = frontier(ordered)
    candidates = tuple(replace(c, on_frontier=index in front) for index, c in enumerate(ordered))
    best = 0 if candidates[0].feasible else None
    changes = () if best is not None else tuple(relaxations(candidates, requirements))
    return Solution(candidates, best, changes, len(variants) + len(tuned), error, bounds, tuple(narrowed))


def bounds_of(variants: Sequence[Variant], combinations: Sequence[Combination]) -> int:
    """Return the maximum number of bounds, which is fixed before any test item is used."""
    # Answers are one object wherever they are used, so their identity counts the statements about them.
    alone = len({id(variant.evaluated) for variant in variants if variant.evaluated})
    combined = {one.statement: one.bounds for one in combinations}
    return max(1, alone + sum(sorted(combined.values(), reverse=True)[:LIMIT]))


class _Market:
    def __init__(self, requirements: Requirements, capacity: Capacity, error: Fraction) -> None:
        self.requirements, self.capacity, self.error = requirements, capacity, error
        self.known: dict[tuple[object, ...], Judged] = {}

    def single(self, variant: Variant) -> Candidate:
        model, proven = variant.evaluated, None
        if model is not None:
            key = (SINGLE, id(model))
            if key not in self.known:
                self.known[key] = judge_single(model, self.error)
            proven = self.known[key]
        combination = Combination(SINGLE, (variant,), () if model is None else (model,))
        return candidate_of(combination, (), proven, self.requirements, self.capacity)

    def tested(self, tuned: TunedCombination) -> Candidate:
        combination = tuned.combination
        if tuned.key not in self.known:
            counted = (
                count_cascade(combination.models, tuned.thresholds, on_tuning=False)
                if combination.kind == CASCADE
                else count_ensemble(combination.models, on_tuning=False)
            )
            self.known[tuned.key] = judge(counted, self.error)
        return candidate_of(combination, tuned.thresholds, self.known[tuned.key], self.requirements, self.capacity)

    def estimated(self, tuned: TunedCombination) -> Candidate:
        combination = tuned.combination
        judged = judge(tuned.seen.elsewhere(combination.models[0].test.total), self.error)
        return candidate_of(combination, tuned.thresholds, judged, self.requirements, self.capacity)


def candidate_of(
    combination: Combination,
    thresholds: tuple[Decimal, ...],
    judged: Judged | None,
    requirements: Requirements,
    capacity: Capacity,
) -> Candidate:
    """Return a variant or a combination as a candidate, priced, placed and checked against the requirements."""
    parts = combination.parts
    uses = _uses(combination, judged, requirements.items)
    price, lacking = _price(parts, uses)
    demand = _demand(parts, uses)
    placed = NOWHERE if demand is None or lacking else capacity(demand)
    least = max(part.least for part in parts)
    accuracy = judged.accuracy if judged else None
    figures: Figures = {
        "accuracy": accuracy,
        "latency": _latency(parts),
        "duration": demand.duration if demand else None,
        "completion": placed.completion,
        "budget": None if price is None else max(price, least),  # the budget must hold the price of the quote
    }
    unplaced = [placed.reason] if placed.reason else []
    reasons, gaps = checked(figures, requirements, [*lacking, *unplaced], _explained(parts, lacking, unplaced))
    return Candidate(
        kind=combination.kind,
        title=combination.title,
        pool=parts[0].pool,
        uses=uses,
        latency=_latency(parts),
        duration=demand.duration if demand else None,
        completion=placed.completion,
        certainty=_certainty(parts),
        price=price,
        least=least,
        reasons=reasons,
        gaps=gaps,
        accuracy=accuracy,
        thresholds=thresholds,
        outputs=_outputs(combination),
        **_tested(judged),
    )


def _explained(parts: Sequence[Variant], lacking: Sequence[str], unplaced: Sequence[str]) -> tuple[str, ...]:
    if any(part.missing for part in parts):
        return RELAXABLE
    if lacking:
        return ("budget", "completion")
    return ("completion",) if unplaced else ()


def _tested(judged: Judged | None) -> dict[str, Any]:
    if judged is None:
        return {"correct": None, "total": None, "shares": ()}
    return {"correct": judged.counted.correct, "total": judged.counted.total, "shares": judged.shares}


def _outputs(combination: Combination) -> tuple[str, ...]:
    if combination.kind == SINGLE:
        return ()
    models = combination.models[:-1] if combination.kind == CASCADE else combination.models
    return tuple(model.output for model in models)


def _uses(combination: Combination, judged: Judged | None, items: int) -> tuple[Use, ...]:
    first, *others = combination.parts
    uses = [Use(first.key, items, items)]
    if combination.kind == CASCADE and judged is not None:
        for part, share, reached in zip(others, judged.shares, judged.counted.reached, strict=True):
            expected = ceil(Fraction(items * reached, judged.counted.total))
            uses.append(Use(part.key, max(1, ceil(items * share)), expected, share))
    else:
        uses += [Use(part.key, items, items) for part in others]
    return tuple(uses)


def _latency(parts: Sequence[Variant]) -> Fraction | None:
    known = [part.latency for part in parts if part.latency is not None]
    return sum(known, Fraction(0)) if len(known) == len(parts) else None


def _certainty(parts: Sequence[Variant]) -> str:
    found = {part.certainty for part in parts}
    return next(word for word in ("measured", "bound", "exact") if word in found)


def _price(parts: Sequence[Variant], uses: Sequence[Use]) -> tuple[Decimal | None, list[str]]:
    missing = [reason for part in parts for reason in part.missing]
    if missing:
        return None, missing
    try:
        return exact_sum(part.price(use.executions) for part, use in zip(parts, uses, strict=True)), []
    except ValueError as error:
        return None, [str(error)]


def _demand(parts: Sequence[Variant], uses: Sequence[Use]) -> Demand | None:
    streams = []
    for part, use in zip(parts, uses, strict=False):
        if part.interval is None or part.latency is None:
            return None
        first = max(part.latency - part.interval, Fraction(0))
        streams.append(Stream(use.executions, part.interval, first, part.load))
    duration, setup = duration_of(streams)
    return Demand(parts[0].pool, duration, setup, parts[0].interval if len(parts) == 1 else None)
