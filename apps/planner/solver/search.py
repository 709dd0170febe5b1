"""The search: every variant alone and the most promising combinations of each pool, tried against every requirement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from apps import figures
from apps.planner.score_format import score_format_of
from apps.planner.solver.answers import ERROR, Judged, count_cascade, count_ensemble, judge, judge_single
from apps.planner.solver.columns import CASCADE, SINGLE, Chooser, Column, Way, ways_of, weights_of
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

RELAXABLE = ("accuracy", "latency", "duration", "completion", "budget")
NOWHERE = Placed(None)
Measures = dict[str, Any]  # requirement -> Fraction | Decimal | None, what a candidate comes to


def solve(variants: Sequence[Variant], requirements: Requirements, capacity: Capacity = idle) -> Solution:
    """The best feasible candidate by the objective and all others with their reasons; `capacity` says when a pool would be
    done.

    Raises ValueError for less than one item, no variant at all or an objective that is none.
    """
    if requirements.items < 1 or not variants:
        raise ValueError("A plan needs at least one item and one model.")
    if requirements.objective not in OBJECTIVES:
        raise ValueError(f"The objective is one of {', '.join(OBJECTIVES)}.")
    weights = weights_of(variants, requirements)
    ways, narrowed = ways_of(variants, weights)
    bounds = bounds_of(variants, ways)
    error = ERROR / bounds
    chooser = Chooser(weights, requirements.accuracy, error)
    columns = [column for column in map(chooser.column, ways) if column is not None]
    market = _Market(requirements, capacity, error)
    chosen = shortlist(columns, requirements, error, market.estimated)
    judged = [*(market.single(variant) for variant in variants), *(market.judged(column) for column in chosen)]
    ordered = sorted(judged, key=lambda one: rank_of(one, requirements.objective))
    front = frontier(ordered)
    candidates = tuple(replace(c, on_frontier=index in front) for index, c in enumerate(ordered))
    best = 0 if candidates[0].feasible else None
    changes = () if best is not None else tuple(relaxations(candidates, requirements))
    return Solution(candidates, best, changes, len(variants) + len(columns), error, bounds, tuple(narrowed))


def bounds_of(variants: Sequence[Variant], ways: Sequence[Way]) -> int:
    """How many bounds may be made at most, known before any answer of the judging part is looked at: one for each model alone,
    and those of the LIMIT combinations that take the most."""
    # Answers are one object wherever they are used, so their identity counts the statements that are made of them.
    alone = len({id(variant.evaluated) for variant in variants if variant.evaluated})
    combined = {way.names: way.bounds for way in ways}
    return max(1, alone + sum(sorted(combined.values(), reverse=True)[:LIMIT]))


class _Market:
    """Makes candidates of variants and columns. A model or a combination is judged once, whatever pools it may run on."""

    def __init__(self, requirements: Requirements, capacity: Capacity, error: Fraction) -> None:
        self.requirements, self.capacity, self.error = requirements, capacity, error
        self.known: dict[tuple[object, ...], Judged] = {}

    def single(self, variant: Variant) -> Candidate:
        """A variant alone; nothing is proven of one that was not evaluated."""
        model, proven = variant.evaluated, None
        if model is not None:
            key = (SINGLE, id(model))
            if key not in self.known:
                self.known[key] = judge_single(model, self.error)
            proven = self.known[key]
        way = Way(SINGLE, (variant,), () if model is None else (model,))
        return candidate_of(way, (), proven, self.requirements, self.capacity)

    def judged(self, column: Column) -> Candidate:
        """A combination by the part that judges."""
        way = column.way
        if column.key not in self.known:
            counted = (
                count_cascade(way.models, column.thresholds, choosing=False)
                if way.kind == CASCADE
                else count_ensemble(way.models, choosing=False)
            )
            self.known[column.key] = judge(counted, self.error)
        return candidate_of(way, column.thresholds, self.known[column.key], self.requirements, self.capacity)

    def estimated(self, column: Column) -> Candidate:
        """What it would be if the shares on the judging part were those of the choosing part."""
        there = column.way.models[0].evaluate.total
        judged = judge(column.seen.elsewhere(there), self.error)
        return candidate_of(column.way, column.thresholds, judged, self.requirements, self.capacity)


def candidate_of(
    way: Way, thresholds: tuple[Decimal, ...], judged: Judged | None, requirements: Requirements, capacity: Capacity
) -> Candidate:
    """A single or a combination, priced, placed and held against every requirement."""
    parts = way.parts
    uses = _uses(way, judged, requirements.items)
    missing = [reason for part in parts for reason in part.missing]
    price, unpriced = _price(parts, uses) if not missing else (None, [])
    demand = _demand(parts, uses)
    placed = NOWHERE if demand is None or missing or unpriced else capacity(demand)
    least = max(part.least for part in parts)
    measures: Measures = {
        "accuracy": judged.accuracy if judged else None,
        "latency": _latency(parts),
        "duration": demand.duration if demand else None,
        "completion": placed.completion,
        "budget": None if price is None else max(price, least),  # what a quote says is what a budget must hold
    }
    hard = [*missing, *unpriced, *([placed.reason] if placed.reason else [])]
    reasons, gaps = _against(measures, requirements, hard)
    telling = way.models[:-1] if way.kind == CASCADE else way.models
    return Candidate(
        kind=way.kind,
        title=way.title,
        pool=parts[0].pool,
        uses=uses,
        latency=measures["latency"],
        duration=measures["duration"],
        completion=placed.completion,
        certainty=_certainty(parts),
        price=price,
        least=least,
        reasons=reasons,
        gaps=gaps,
        accuracy=judged.accuracy if judged else None,
        correct=judged.counted.correct if judged else None,
        total=judged.counted.total if judged else None,
        thresholds=thresholds,
        shares=judged.shares if judged else (),
        outputs=() if way.kind == SINGLE else tuple(model.output for model in telling),
    )


def _uses(way: Way, judged: Judged | None, items: int) -> tuple[Use, ...]:
    """Every item under the first part and under each of an ensemble; of a cascade those that may go on under the others."""
    first, *others = way.parts
    uses = [Use(first.key, items, items)]
    if way.kind == CASCADE and judged is not None:
        for part, share, reached in zip(others, judged.shares, judged.counted.reached, strict=True):
            expected = ceil(Fraction(items * reached, judged.counted.total))
            uses.append(Use(part.key, max(1, ceil(items * share)), expected, share))
    else:
        uses += [Use(part.key, items, items) for part in others]
    return tuple(uses)


def _latency(parts: Sequence[Variant]) -> Fraction | None:
    """An item may pass every part; None where the time of one is not known."""
    known = [part.latency for part in parts if part.latency is not None]
    return sum(known, Fraction(0)) if len(known) == len(parts) else None


def _against(
    measures: Measures, requirements: Requirements, hard: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, Fraction], ...]]:
    """The reasons against a candidate, and the gaps by which relaxing requirements would make it feasible; no gaps where
    something is missing that relaxing does not bring."""
    # What is missing explains every unknown figure; saying so again for each would only be noise.
    unmet = [row for row in _unmet(measures, requirements) if row[1] is not None or not hard]
    reasons = (*hard, *(text for _, _, text in unmet))
    gaps = tuple((name, value) for name, value, _ in unmet if value is not None)
    return reasons, gaps if not hard and len(gaps) == len(unmet) else ()


def _certainty(parts: Sequence[Variant]) -> str:
    """The weakest of the parts'."""
    found = {part.certainty for part in parts}
    return next(word for word in ("measured", "bound", "exact") if word in found)


def _price(parts: Sequence[Variant], uses: Sequence[Use]) -> tuple[Decimal | None, list[str]]:
    """The sum over the uses, or why there is none."""
    try:
        return exact_sum(part.price(use.executions) for part, use in zip(parts, uses, strict=True)), []
    except ValueError as error:
        return None, [str(error)]


def _demand(parts: Sequence[Variant], uses: Sequence[Use]) -> Demand | None:
    """All executions one after another: an interval each, and once the loads and the rest of the longest latency, as a
    quote reserves them. None where a part's
    time is not known."""
    streams = []
    for part, use in zip(parts, uses, strict=False):
        if part.interval is None or part.latency is None:
            return None
        first = max(part.latency - part.interval, Fraction(0))
        streams.append(Stream(use.executions, part.interval, first, part.load))
    duration, setup = duration_of(streams)
    return Demand(parts[0].pool, duration, setup, parts[0].interval if len(parts) == 1 else None)


def _unmet(measures: Measures, requirements: Requirements) -> Iterator[tuple[str, Fraction | None, str]]:
    """(requirement, the value it would need to have, sentence) for each requirement that is not met."""
    for name in RELAXABLE:
        wanted, found = getattr(requirements, name), measures[name]
        if wanted is None:
            continue
        if found is None:
            yield name, None, _unknown(name, requirements.metric)
        elif (found < wanted) if name == "accuracy" else (found > wanted):
            yield name, Fraction(found), _shortfall(name, Fraction(found), Fraction(wanted), requirements.metric)


_UNKNOWN = {
    "latency": "Its latency is not known here.",
    "duration": "Its duration is not known here.",
    "completion": "When it would be done is not known here.",
    "budget": "It has no price here.",
}
_UNMET = {
    "latency": "One item takes {found}, and at most {wanted} are allowed.",
    "duration": "All items together take {found}, and at most {wanted} are allowed.",
    "completion": "Its pool has other work: all items would be done in {found}, and {wanted} are left.",
    "budget": "It costs more than the budget.",
}


def _unknown(name: str, metric: str) -> str:
    if name == "accuracy":
        return f"It was not evaluated, so no {score_format_of(metric).name} can be promised."
    return _UNKNOWN[name]


def _shortfall(name: str, found: Fraction, wanted: Fraction, metric: str) -> str:
    """The sentence with both values, with as many decimals as tell them apart."""
    if name == "accuracy":
        return score_format_of(metric).shortfall_sentence(found, wanted)
    nanoseconds = [f"{figures.fixed(value * 10**9, 3)}{figures.NARROW_SPACE}ns" for value in (found, wanted)]
    pairs = [(figures.duration_format(found), figures.duration_format(wanted)), (nanoseconds[0], nanoseconds[1])]
    apart = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    return _UNMET[name].format(found=apart[0], wanted=apart[1])
