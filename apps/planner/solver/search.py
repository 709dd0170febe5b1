"""The exhaustive search: every variant alone, every pair of a pool as a cascade, each tried against every requirement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from apps import figures
from apps.planner.solver.answers import ERROR, Judged, judge_cascade, judge_single
from apps.planner.solver.types import (
    Candidate,
    Capacity,
    Change,
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


@dataclass(frozen=True)
class Plain:
    """A variant or a pair before it is judged against requirements."""

    parts: tuple[Variant, ...]
    judged: Judged | None


def solve(variants: Sequence[Variant], requirements: Requirements, capacity: Capacity = idle) -> Solution:
    """The cheapest feasible candidate and all others with their reasons; `capacity` says when a pool would be done.

    Raises ValueError for less than one item or no variant at all.
    """
    if requirements.items < 1 or not variants:
        raise ValueError("A plan needs at least one item and one model.")
    pairs = list(cascades(variants))
    # Answers are one object wherever they are used, so their identity counts the statements that are made of them.
    judged_alone = {id(variant.evaluated) for variant in variants if variant.evaluated}
    statements = len(judged_alone) + len({(id(a.evaluated), id(b.evaluated)) for a, b in pairs})
    error = ERROR / max(1, statements)
    judge = _Judge(requirements.accuracy, error)
    plain = [Plain(parts, judge.of(parts)) for parts in [*((v,) for v in variants), *pairs]]
    judged = [candidate_of(one, requirements, capacity) for one in plain]
    ordered = sorted(judged, key=_rank)
    front = frontier(ordered)
    candidates = tuple(replace(c, on_frontier=index in front) for index, c in enumerate(ordered))
    chosen = 0 if candidates[0].feasible else None
    changes = () if chosen is not None else tuple(relaxations(candidates, requirements))
    return Solution(candidates, chosen, changes, len(candidates), error)


class _Judge:
    """Judges a model or a cascade once, whatever pools it may run on."""

    def __init__(self, wanted: Fraction | None, error: Fraction) -> None:
        self.wanted, self.error = wanted, error
        self.known: dict[tuple[int, ...], Judged] = {}  # by the identity of the answers, which the variants keep alive

    def of(self, parts: tuple[Variant, ...]) -> Judged | None:
        """None where one of the parts was not evaluated."""
        models = [part.evaluated for part in parts if part.evaluated is not None]
        if len(models) < len(parts):
            return None
        key = tuple(id(model) for model in models)
        if key not in self.known:
            self.known[key] = (
                judge_single(models[0], self.error)
                if len(models) == 1
                else judge_cascade(models[0], models[1], self.wanted, self.error)
            )
        return self.known[key]


def cascades(variants: Sequence[Variant]) -> Iterator[tuple[Variant, Variant]]:
    """Pairs on one pool whose second model was right more often on the choosing part, and whose first tells its confidence."""
    for first in variants:
        for second in variants:
            if first.pool != second.pool or first.evaluated is None or second.evaluated is None:
                continue
            if first.missing or second.missing or not first.evaluated.output:
                continue
            if sum(first.evaluated.choose.right) < sum(second.evaluated.choose.right):
                yield first, second


def _rank(candidate: Candidate) -> tuple[bool, bool, Decimal, Fraction, str]:
    """Feasible before infeasible, then by price, latency and name: the same order every time."""
    price, latency = candidate.price, candidate.latency
    return (not candidate.feasible, price is None, price or Decimal(0), latency or Fraction(0), candidate.title)


def candidate_of(plain: Plain, requirements: Requirements, capacity: Capacity) -> Candidate:
    """A single or a cascade, priced, placed and held against every requirement."""
    parts, judged = plain.parts, plain.judged
    uses = _uses(plain, requirements.items)
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
    return Candidate(
        kind="cascade" if len(parts) == 2 else "single", title=" then ".join(part.model for part in parts), pool=parts[0].pool,
        uses=tuple(uses), latency=measures["latency"], duration=measures["duration"], completion=placed.completion,
        certainty=_certainty(parts), price=price, least=least, reasons=reasons, gaps=gaps, **_proven(plain),
    )  # fmt: skip


def _uses(plain: Plain, items: int) -> list[Use]:
    """Every item under the first part; of a cascade those that may go on under the second."""
    uses, judged = [Use(plain.parts[0].key, items, items)], plain.judged
    if len(plain.parts) == 2 and judged is not None:
        most = max(1, ceil(items * judged.share))
        uses.append(Use(plain.parts[1].key, most, ceil(Fraction(items * judged.escalated, judged.total))))
    return uses


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


def _proven(plain: Plain) -> dict[str, Any]:
    """What was judged, as a candidate says it."""
    judged, first = plain.judged, plain.parts[0].evaluated
    if judged is None:
        return {"accuracy": None, "correct": None, "total": None}
    said: dict[str, Any] = {"accuracy": judged.accuracy, "correct": judged.correct, "total": judged.total}
    if len(plain.parts) == 1:
        return said
    return {**said, "threshold": judged.threshold, "share": judged.share, "output": first.output if first else ""}


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


def _unmet(
    measures: Measures, requirements: Requirements
) -> Iterator[tuple[str, Fraction | None, str]]:
    """(requirement, the value it would need to have, sentence) for each requirement that is not met."""
    for name in RELAXABLE:
        wanted, found = getattr(requirements, name), measures[name]
        if wanted is None:
            continue
        if found is None:
            yield name, None, _UNKNOWN[name]
        elif (found < wanted) if name == "accuracy" else (found > wanted):
            yield name, Fraction(found), _shortfall(name, Fraction(found), Fraction(wanted))


_UNKNOWN = {
    "accuracy": "It was not evaluated, so no accuracy can be promised.",
    "latency": "Its latency is not known here.",
    "duration": "Its duration is not known here.",
    "completion": "When it would be done is not known here.",
    "budget": "It has no price here.",
}
_UNMET = {
    "accuracy": "Its accuracy is proven only to {found}, and {wanted} are required.",
    "latency": "One item takes {found}, and at most {wanted} are allowed.",
    "duration": "All items together take {found}, and at most {wanted} are allowed.",
    "completion": "Its pool has other work: all items would be done in {found}, and {wanted} are left.",
    "budget": "It costs more than the budget.",
}


def _shortfall(name: str, found: Fraction, wanted: Fraction) -> str:
    """The sentence with both values, with as many decimals as tell them apart."""
    if name == "accuracy":
        pairs = [(figures.percent_format(found, places), figures.percent_format(wanted, places)) for places in range(2, 9)]
    else:
        nanoseconds = [f"{figures.fixed(value * 10**9, 3)}{figures.NARROW_SPACE}ns" for value in (found, wanted)]
        pairs = [(figures.duration_format(found), figures.duration_format(wanted)), (nanoseconds[0], nanoseconds[1])]
    apart = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    return _UNMET[name].format(found=apart[0], wanted=apart[1])


def frontier(candidates: Sequence[Candidate]) -> set[int]:
    """Indices of feasible candidates that no other feasible one beats in price, latency and accuracy together."""
    points = {index: _point(c) for index, c in enumerate(candidates) if c.feasible and c.price is not None}
    return {
        index
        for index, point in points.items()
        if not any(_dominates(other, point) for key, other in points.items() if key != index)
    }


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
