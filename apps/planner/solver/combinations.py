"""Combinations of programs on one pool, tuned on the tuning items.

In a cascade, an item falls back to the next program if the confidence is below a threshold. In an ensemble, three
programs vote. If all three disagree, the answer of the program with the most right answers on the tuning items counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from math import lcm

from apps.planner.solver.answers import Counted, Evaluated, count_cascade, count_ensemble
from apps.planner.solver.thresholds import Grid, choose_threshold, choose_thresholds, grid_of
from apps.planner.solver.types import DEVICE_TIME, Narrowed, Requirements, Variant

SINGLE, CASCADE, ENSEMBLE = "single", "cascade", "ensemble"
PARTS = 12  # programs of a pool that are combined with each other
LOWEST_THRESHOLD = Decimal("0.00005")  # lower ones read as 0.00 %: practically nothing would fall back
Models = tuple[Evaluated, ...]
Tuning = tuple[tuple[Decimal, ...], Counted]  # thresholds, and the result on the tuning items


@dataclass(frozen=True)
class Combination:
    """Variants of one pool in execution order, with their answers."""

    kind: str
    parts: tuple[Variant, ...]
    models: Models

    @property
    def bounds(self) -> int:
        """The number of bounds that a test of the combination needs."""
        return len(self.parts) if self.kind == CASCADE else 1

    @property
    def title(self) -> str:
        names = [part.model for part in self.parts]
        if self.kind == ENSEMBLE:
            return f"vote of {', '.join(names[:-1])} and {names[-1]}"
        return " then ".join(names)

    @property
    def statement(self) -> tuple[object, ...]:
        """The key of the answers. Combinations with equal keys are tuned only once."""
        ids = tuple(id(model) for model in self.models)
        return (self.kind, ids, self.parts[0].pool if len(ids) == 3 and self.kind == CASCADE else "")


@dataclass(frozen=True)
class TunedCombination:
    """A combination with its thresholds.

    `seen` is the result on the tuning items. `load` is the cost per tuning item.
    """

    combination: Combination
    thresholds: tuple[Decimal, ...]
    seen: Counted
    load: Fraction

    @property
    def key(self) -> tuple[object, ...]:
        """The key of the answers and thresholds. Combinations with equal keys are tested only once."""
        return (self.combination.kind, tuple(id(model) for model in self.combination.models), self.thresholds)


def weights_of(variants: Sequence[Variant], requirements: Requirements) -> dict[str, int]:
    """Return the cost of one execution of each variant, in whole numbers of a common unit.

    Variants of unknown cost are left out.
    """
    found: dict[str, Fraction] = {}
    for variant in variants:
        weight = None if variant.missing else _weight(variant, requirements)
        if weight is not None:
            found[variant.key] = weight
    unit = lcm(*(weight.denominator for weight in found.values()))
    return {key: int(weight * unit) for key, weight in found.items()}


def _weight(variant: Variant, requirements: Requirements) -> Fraction | None:
    if requirements.objective == DEVICE_TIME:
        return variant.interval
    try:
        return Fraction(variant.price(requirements.items)) / requirements.items
    except ValueError:
        return None


def combinations_of(
    variants: Sequence[Variant], weights: Mapping[str, int]
) -> tuple[list[Combination], list[Narrowed]]:
    """Return the combinations of the programs of each pool, and the pools on which only some programs were combined."""
    pools: dict[str, list[Variant]] = defaultdict(list)
    for variant in variants:
        if variant.evaluated is not None and variant.evaluated.bound is None and variant.key in weights:
            pools[variant.pool].append(variant)
    found: list[Combination] = []
    narrowed = []
    for pool, known in pools.items():
        parts = known if len(known) <= PARTS else parts_of(known, weights)
        if len(parts) < len(known):
            narrowed.append(Narrowed(pool, len(parts), len(known)))
        found += [*_cascades(parts, 2), *_cascades(parts, 3), *_ensembles(parts)]
    return found, narrowed


def parts_of(variants: Sequence[Variant], weights: Mapping[str, int]) -> list[Variant]:
    """Return at most PARTS variants to combine, the most promising first."""
    ordered = sorted(variants, key=lambda one: (weights[one.key], -_right(one), one.key))
    best = -1
    front: list[Variant] = []
    others: list[Variant] = []
    for one in ordered:
        (front if _right(one) > best else others).append(one)
        best = max(best, _right(one))
    others.sort(key=lambda one: (-_right(one), weights[one.key], one.key))
    if len(front) > PARTS:  # keep the cheapest, the best, and an even selection in between
        front = [front[index * (len(front) - 1) // (PARTS - 1)] for index in range(PARTS)]
    return [*front, *others][:PARTS]


def _right(variant: Variant) -> int:
    return variant.evaluated.tuning.correct if variant.evaluated else 0


def _answers(parts: Iterable[Variant]) -> Models | None:
    some = list(parts)
    models = tuple(part.evaluated for part in some if part.evaluated is not None)
    sizes = {(model.tuning.total, model.test.total) for model in models}
    programs = [part.program for part in some if part.program]
    fits = len({part.takes for part in some}) == 1 and len(sizes) == 1 and len(set(programs)) == len(programs)
    return models if fits else None


def _cascades(parts: Sequence[Variant], length: int) -> Iterator[Combination]:
    for some in combinations(sorted(parts, key=_right), length):
        models = _answers(some)
        if models is None or any(not model.output for model in models[:-1]):
            continue
        if all(a.tuning.correct < b.tuning.correct for a, b in pairwise(models)):
            yield Combination(CASCADE, some, models)


def _ensembles(parts: Sequence[Variant]) -> Iterator[Combination]:
    voting = [part for part in parts if part.classes is not None and part.evaluated and part.evaluated.tuning.predicted]
    for some in combinations(sorted(voting, key=lambda part: -_right(part)), 3):
        models = _answers(some)
        if models is not None and len({part.classes for part in some}) == 1:
            yield Combination(ENSEMBLE, some, models)


class Tuner:
    """Chooses thresholds on the tuning items."""

    def __init__(self, weights: Mapping[str, int], wanted: Fraction | None, error: Fraction) -> None:
        self.weights, self.wanted, self.error = weights, wanted, error
        # Both are keyed by the identity of answers, which the variants keep alive.
        self.grids: dict[tuple[int, ...], Grid] = {}
        self.known: dict[tuple[int, ...], Tuning] = {}

    def tune(self, combination: Combination) -> TunedCombination | None:
        """Return the combination with its thresholds; None if fewer programs would give the same answers."""
        found = self._tuning(combination)
        if found is None:
            return None
        thresholds, seen = found
        if combination.kind == CASCADE and (not all(seen.reached) or min(thresholds) < LOWEST_THRESHOLD):
            return None
        runs = seen.reached if combination.kind == CASCADE else (seen.total,) * (len(combination.parts) - 1)
        costs = [self.weights[part.key] for part in combination.parts]
        load = costs[0] * seen.total + sum(cost * count for cost, count in zip(costs[1:], runs, strict=True))
        return TunedCombination(combination, thresholds, seen, Fraction(load, seen.total))

    def _tuning(self, combination: Combination) -> Tuning | None:
        if combination.kind == ENSEMBLE:
            return self._ensemble(combination)
        return self._pair(combination) if len(combination.parts) == 2 else self._three(combination)

    def _pair(self, combination: Combination) -> Tuning:
        key = tuple(id(model) for model in combination.models)
        if key not in self.known:
            first, second = combination.models
            thresholds = (choose_threshold(first, second, self.wanted, self.error),)
            self.known[key] = thresholds, count_cascade(combination.models, thresholds, on_tuning=True)
        return self.known[key]

    def _three(self, combination: Combination) -> Tuning | None:
        first, second, third = combination.models
        key = id(first), id(second), id(third)
        if key not in self.grids:
            self.grids[key] = grid_of(first, second, third)
        costs = self.weights[combination.parts[1].key], self.weights[combination.parts[2].key]
        thresholds = choose_thresholds((first, second, third), self.grids[key], costs, self.wanted, self.error)
        return (
            None if thresholds is None else (thresholds, count_cascade(combination.models, thresholds, on_tuning=True))
        )

    def _ensemble(self, combination: Combination) -> Tuning | None:
        first, second, third = (model.tuning.classes for model in combination.models)
        if not ((second == third) & (first != second)).any():
            return None
        return (), count_ensemble(combination.models, on_tuning=True)
