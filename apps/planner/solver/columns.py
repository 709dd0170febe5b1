"""The columns of the search: programs of one pool that work together, with everything chosen that the choosing part decides.

A cascade runs two or three programs one after another, each on the items of which those before were less sure than a
threshold. An ensemble runs three on every item and gives the answer that two of them agree on, else that of the one which was
right most often on the choosing part. (Two programs can only outvote each other: theirs would be the answer of the better.)
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
PARTS = 12  # programs of a pool of which combinations are made
Models = tuple[Evaluated, ...]


@dataclass(frozen=True)
class Way:
    """Variants of one pool in the order in which they run; `models` are their answers."""

    kind: str
    parts: tuple[Variant, ...]
    models: Models

    @property
    def bounds(self) -> int:
        """How many bounds judging it takes: of its accuracy, and of each share that goes on."""
        return len(self.parts) if self.kind == CASCADE else 1

    @property
    def title(self) -> str:
        """The models' names."""
        return title_of(self.kind, self.parts)

    @property
    def names(self) -> tuple[object, ...]:
        """Equal for those that are one statement about the same answers, whatever pool they are on."""
        ids = tuple(id(model) for model in self.models)
        return (self.kind, ids, self.parts[0].pool if len(ids) == 3 and self.kind == CASCADE else "")


def title_of(kind: str, parts: Sequence[Variant]) -> str:
    """The models' names, in the order in which they run."""
    names = [part.model for part in parts]
    return f"vote of {', '.join(names[:-1])} and {names[-1]}" if kind == ENSEMBLE else " then ".join(names)


@dataclass(frozen=True)
class Column:
    """A way with its thresholds; `seen` is what it did on the choosing part, `load` what that cost an item by the weights."""

    way: Way
    thresholds: tuple[Decimal, ...]
    seen: Counted
    load: Fraction

    @property
    def key(self) -> tuple[object, ...]:
        """The statement that is judged: the same on every pool where the same answers and thresholds are used."""
        return (self.way.kind, tuple(id(model) for model in self.way.models), self.thresholds)


def weights_of(variants: Sequence[Variant], requirements: Requirements) -> dict[str, int]:
    """What an execution of each variant costs by the objective, as whole numbers of one unit: the price (among as many as
    there are items), or the device time. Variants of which that is not known are left out."""
    found: dict[str, Fraction] = {}
    for variant in variants:
        if variant.missing:
            continue
        if requirements.objective == DEVICE_TIME:
            if variant.interval is not None:
                found[variant.key] = variant.interval
            continue
        try:
            found[variant.key] = Fraction(variant.price(requirements.items)) / requirements.items
        except ValueError:
            continue
    unit = lcm(*(weight.denominator for weight in found.values()))
    return {key: int(weight * unit) for key, weight in found.items()}


def ways_of(variants: Sequence[Variant], weights: Mapping[str, int]) -> tuple[list[Way], list[Narrowed]]:
    """Every combination of the programs of each pool, and where not all programs were used."""
    pools: dict[str, list[Variant]] = defaultdict(list)
    for variant in variants:
        if variant.evaluated is not None and variant.evaluated.bound is None and variant.key in weights:
            pools[variant.pool].append(variant)
    ways: list[Way] = []
    narrowed = []
    for pool, known in pools.items():
        parts = known if len(known) <= PARTS else parts_of(known, weights)
        if len(parts) < len(known):
            narrowed.append(Narrowed(pool, len(parts), len(known)))
        ways += [*_cascades(parts, 2), *_cascades(parts, 3), *_ensembles(parts)]
    return ways, narrowed


def parts_of(variants: Sequence[Variant], weights: Mapping[str, int]) -> list[Variant]:
    """The PARTS variants of which combinations are made: first those that no cheaper one equals in right answers on the
    choosing part, then those with the most right answers."""
    ordered = sorted(variants, key=lambda one: (weights[one.key], -_right(one), one.key))
    best = -1
    front: list[Variant] = []
    others: list[Variant] = []
    for one in ordered:
        (front if _right(one) > best else others).append(one)
        best = max(best, _right(one))
    others.sort(key=lambda one: (-_right(one), weights[one.key], one.key))
    # Of a long frontier the ends matter: the cheapest and the best, and what lies evenly between them.
    if len(front) > PARTS:
        front = [front[index * (len(front) - 1) // (PARTS - 1)] for index in range(PARTS)]
    return [*front, *others][:PARTS]


def _right(variant: Variant) -> int:
    return variant.evaluated.choose.correct if variant.evaluated else 0


def _together(parts: Iterable[Variant]) -> Models | None:
    """The answers of variants that can work on the same items; None where they cannot."""
    some = list(parts)
    models = tuple(part.evaluated for part in some if part.evaluated is not None)
    sizes = {(model.choose.total, model.evaluate.total) for model in models}
    programs = [part.program for part in some if part.program]
    fits = len({part.takes for part in some}) == 1 and len(sizes) == 1 and len(set(programs)) == len(programs)
    return models if fits else None


def _cascades(parts: Sequence[Variant], length: int) -> Iterator[Way]:
    """Each part was right more often on the choosing part than the one before it, and all but the last tell a confidence."""
    for some in combinations(sorted(parts, key=_right), length):
        models = _together(some)
        if models is None or any(not model.output for model in models[:-1]):
            continue
        if all(a.choose.correct < b.choose.correct for a, b in pairwise(models)):
            yield Way(CASCADE, some, models)


def _ensembles(parts: Sequence[Variant]) -> Iterator[Way]:
    """Any three whose outputs give the same classes; first the one with the most right answers on the choosing part."""
    voting = [part for part in parts if part.classes is not None and part.evaluated and part.evaluated.choose.predicted]
    for some in combinations(sorted(voting, key=lambda part: -_right(part)), 3):
        models = _together(some)
        if models is not None and len({part.classes for part in some}) == 1:
            yield Way(ENSEMBLE, some, models)


class Chooser:
    """Turns ways into columns: thresholds by the choosing part, once for equal answers."""

    def __init__(self, weights: Mapping[str, int], wanted: Fraction | None, error: Fraction) -> None:
        self.weights, self.wanted, self.error = weights, wanted, error
        self.grids: dict[tuple[int, ...], Grid] = {}  # by the identity of the answers, which the variants keep alive
        self.known: dict[tuple[int, ...], tuple[tuple[Decimal, ...], Counted]] = {}

    def column(self, way: Way) -> Column | None:
        """None where nothing goes on, or no vote changes an answer: that is a way with fewer programs."""
        choose = self._ensemble if way.kind == ENSEMBLE else self._pair if len(way.parts) == 2 else self._three
        found = choose(way)
        if found is None or (way.kind == CASCADE and not all(found[1].reached)):
            return None
        thresholds, seen = found
        runs = seen.reached if way.kind == CASCADE else (seen.total,) * (len(way.parts) - 1)
        costs = [self.weights[part.key] for part in way.parts]
        load = costs[0] * seen.total + sum(cost * count for cost, count in zip(costs[1:], runs, strict=True))
        return Column(way, thresholds, seen, Fraction(load, seen.total))

    def _pair(self, way: Way) -> tuple[tuple[Decimal, ...], Counted] | None:
        key = tuple(id(model) for model in way.models)
        if key not in self.known:
            thresholds = (choose_threshold(way.models[0], way.models[1], self.wanted, self.error),)
            self.known[key] = thresholds, count_cascade(way.models, thresholds, choosing=True)
        return self.known[key]

    def _three(self, way: Way) -> tuple[tuple[Decimal, ...], Counted] | None:
        first, second, third = way.models
        key = id(first), id(second), id(third)
        if key not in self.grids:
            self.grids[key] = grid_of(first, second, third)
        costs = self.weights[way.parts[1].key], self.weights[way.parts[2].key]
        thresholds = choose_thresholds((first, second, third), self.grids[key], costs, self.wanted, self.error)
        return None if thresholds is None else (thresholds, count_cascade(way.models, thresholds, choosing=True))

    def _ensemble(self, way: Way) -> tuple[tuple[Decimal, ...], Counted] | None:
        first, second, third = (model.choose.classes for model in way.models)
        if not ((second == third) & (first != second)).any():
            return None
        return (), count_ensemble(way.models, choosing=True)
