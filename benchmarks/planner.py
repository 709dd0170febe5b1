"""How long a plan takes, and whether it is the best one: `python -m benchmarks.planner [INSTANCES] [SEED]`

Ten models on five pools, each evaluated on 10,000 labelled items that are made up from SEED, half to choose thresholds on and
half to judge them: plans for several accuracies through the service on PostgreSQL, in this one process, beside the time of the
solver alone. Then INSTANCES random small markets, each solved once more by trying every candidate with every threshold, with
bounds from whole numbers: pool, price, threshold and accuracy must be the same. Exit status 1 when a plan takes longer than
2 s, or when one differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import ceil, comb
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.arguments import counts
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.planner.solver import Evaluated, Requirements, Variant
    from apps.registry.models import ModelVersion
    from tests.cast import Cast

MODELS, ITEMS, LABELS = 10, 10_000, 100
WANTED = (None, Fraction(80, 100), Fraction(90, 100), Fraction(94, 100), Fraction(999, 1000))
LONGEST = 2.0  # seconds of a plan
GRID = 10**6  # bounds are multiples of its inverse


def main(arguments: list[str]) -> int:
    instances, seed = counts("planner", __doc__ or "", arguments, instances=200, seed=1)
    with house():
        longest = _plans(np.random.default_rng(seed))
        different = _small(instances, np.random.default_rng(seed + 1))
    return 1 if longest > LONGEST or different else 0


def _plans(dice: np.random.Generator) -> float:
    """Seconds of the slowest plan of the large market."""
    from apps.planner import services
    from apps.planner.solver import Requirements
    from tests.sales.market import NOW

    cast, version = _market(dice)
    solved, spent = services.solve, [0.0]

    def timed(*given: Any) -> Any:
        began = time.perf_counter()
        try:
            return solved(*given)
        finally:
            spent[0] = time.perf_counter() - began

    services.solve = timed
    longest = 0.0
    print(f"{'accuracy':>9} {'plan':>8} {'solver':>8}  candidates  chosen")
    for wanted in WANTED:
        began = time.perf_counter()
        plan = services.plan_create(
            subject=version, requirements=Requirements(1_000_000, accuracy=wanted), actor=cast.engineer, now=NOW
        )
        took = time.perf_counter() - began
        longest = max(longest, took)
        chosen = f"{plan.chosen['title']} on {plan.chosen['pool']}" if plan.chosen else "nothing is feasible"
        said = "any" if wanted is None else f"{float(wanted):.3f}"
        print(f"{said:>9} {took:7.2f}s {spent[0]:7.2f}s  {plan.basis['examined']:>10}  {chosen}")
    services.solve = solved
    print(f"the slowest plan took {longest:.2f} s; at most {LONGEST:.0f} s are allowed")
    return longest


def _market(dice: np.random.Generator) -> tuple[Cast, ModelVersion]:
    """Ten models of one family, each compiled for both processors and measured on the host, on five pools."""
    from apps.fleet.models import Device, HostMeasurement, Pool, PoolKind
    from apps.registry.models import Evaluation, ModelFamily
    from tests.cast import assemble
    from tests.sales.market import NOW, START, open_market

    market, cast = open_market(devices=4), assemble()
    for slug, like in (("lpu-c", market.lpu), ("lpu2-d", market.lpu2)):
        pool = Pool.objects.create(
            slug=slug, name=slug, kind=PoolKind.SIMULATED, processor=like.processor, processor_class=like.processor_class,
            site=like.site, created_at=START,
        )  # fmt: skip
        Device.objects.create(pool=pool, name=f"{slug}-0")
    family = ModelFamily.objects.create(organisation=cast.organisation, name="made up", created_at=START)
    labels = dice.integers(0, LABELS, ITEMS)
    for number in range(MODELS):
        cycles = 20_000 * (number + 1)
        program = market.program(
            cast.organisation, cast.engineer, operations=cycles * 7_000, interval=cycles, latency=cycles * 2,
            name=f"model-{number}",
        )  # fmt: skip
        version = program.model_version
        HostMeasurement.objects.create(
            pool=market.host, program_digest=program.digest, samples=100, p50_ns=cycles * 100, p95_ns=cycles * 110,
            p99_ns=cycles * 120, hardware="made up", measured_at=NOW,
        )  # fmt: skip
        program.pk, program.digest, program.target = None, program.digest[::-1], "lpu2"
        program.target_digest = market.processors["lpu2"].digest
        program.save(force_insert=True)
        Evaluation.objects.create(
            family=family, model_version=version, dataset_name="made up", dataset_digest="0" * 64, metric="accuracy", correct=1,
            total=ITEMS // 2, lower_bound=0, confidence_output="probabilities", items=_answers(dice, labels, number),
            created_at=NOW,
        )  # fmt: skip
    return cast, version


def _answers(dice: np.random.Generator, labels: np.ndarray[Any, Any], number: int) -> dict[str, Any]:
    """A model that is right more often the larger it is, and surer where it is right."""
    right = dice.random(ITEMS) < 0.80 + 0.17 * number / MODELS
    predicted = np.where(right, labels, (labels + 1) % LABELS)
    confidence = np.where(right, dice.beta(8, 2, ITEMS), dice.beta(4, 4, ITEMS))
    half = ITEMS // 2
    return {
        name: {
            "labels": labels[part].tolist(),
            "predicted": predicted[part].tolist(),
            "confidence": [f"{value:.8f}" for value in confidence[part]],
        }
        for name, part in (("choose", slice(0, half)), ("evaluate", slice(half, None)))
    }


@dataclass(frozen=True)
class Found:
    """A feasible way, found by trying."""

    price: Decimal
    latency: Fraction
    title: str
    pool: str
    threshold: Decimal | None
    accuracy: Fraction | None


def _small(instances: int, dice: np.random.Generator) -> int:
    """How many random small markets are planned otherwise than by trying everything."""
    from apps.planner.solver import solve

    different = chosen = cascades = 0
    for number in range(instances):
        variants, wanted = _instance(dice)
        solution = solve(variants, wanted)
        best = min(tried(variants, wanted), key=lambda one: (one.price, one.latency, one.title), default=None)
        ours = None if solution.chosen is None else solution.candidates[solution.chosen]
        chosen, cascades = chosen + (ours is not None), cascades + (ours is not None and ours.kind == "cascade")
        told = ours and Found(
            ours.price or Decimal(0), ours.latency or Fraction(0), ours.title, ours.pool, ours.threshold, ours.accuracy
        )
        if best != told:
            different += 1
            print(f"  DIFFERENT: instance {number}: {told}, by trying {best}")
    print(f"{instances} small markets: {different} differ; {chosen} have a feasible way, {cascades} of them a cascade")
    return different


def _instance(dice: np.random.Generator) -> tuple[list[Variant], Requirements]:
    from apps.planner.solver import Requirements, Variant

    here, there = int(dice.integers(5, 30)), int(dice.integers(10, 60))
    variants = []
    for place, name in enumerate("abc"[: int(dice.integers(1, 4))]):
        evaluated = _evaluated(dice, here, there, float(dice.uniform(0.5 + 0.15 * place, 1.0)))
        for pool in ("p", "q"):
            unit = Decimal(int(dice.integers(1, 20)) * 8**place)  # the better, the dearer, as a rule
            latency = Fraction(int(dice.integers(1, 50)), 1000)
            variants.append(
                Variant(
                    f"{name}@{pool}", name, pool, lambda executions, unit=unit: unit * executions, evaluated, latency,
                    latency * Fraction(1, 2), missing=("not compiled",) if dice.random() < 0.1 else (),
                )
            )  # fmt: skip
    share = None if dice.random() < 0.2 else Fraction(int(dice.integers(40, 90)), 100)
    latency_most = None if dice.random() < 0.6 else Fraction(int(dice.integers(5, 80)), 1000)
    budget = None if dice.random() < 0.6 else Decimal(int(dice.integers(100, 20_000)))
    return variants, Requirements(int(dice.integers(1, 100)), accuracy=share, latency=latency_most, budget=budget)


def _evaluated(dice: np.random.Generator, here: int, there: int, skill: float) -> Evaluated:
    from apps.planner.solver import Answers, Evaluated

    def part(items: int) -> Answers:
        right = dice.random(items) < skill
        sure = np.where(right, 0.5, 0.2) + dice.integers(0, 10, items) / 20
        return Answers(tuple(map(bool, right)), tuple(Decimal(f"{value:.2f}") for value in sure))

    return Evaluated(part(here), part(there), "probabilities")


def tried(variants: list[Variant], wanted: Requirements) -> Iterator[Found]:
    """Every feasible way: each variant, and each pair of a pool with the lowest threshold that should do."""
    pairs = [(a, b) for a in variants for b in variants if _follows(a, b)]
    statements = len({id(one.evaluated) for one in variants}) + len({(id(a.evaluated), id(b.evaluated)) for a, b in pairs})
    error = Fraction(1, 20) / statements
    for one in variants:
        assert one.evaluated is not None
        right = one.evaluated.evaluate.right
        found = Found(
            one.price(wanted.items), one.latency or Fraction(0), one.model, one.pool, None, _bound(sum(right), len(right), error)
        )
        if not one.missing and _meets(found, wanted):
            yield found
    for first, second in pairs:
        found = _cascade(first, second, wanted, error / 2)
        if _meets(found, wanted):
            yield found


def _follows(first: Variant, second: Variant) -> bool:
    assert first.evaluated is not None
    assert second.evaluated is not None
    known = not first.missing and not second.missing
    better = sum(first.evaluated.choose.right) < sum(second.evaluated.choose.right)
    return first.pool == second.pool and known and better


def _cascade(first: Variant, second: Variant, wanted: Requirements, error: Fraction) -> Found:
    assert first.evaluated is not None
    assert second.evaluated is not None
    here, there = (first.evaluated.choose, second.evaluated.choose), (first.evaluated.evaluate, second.evaluated.evaluate)
    total = there[0].total
    thresholds = sorted({Decimal(0), *here[0].confidence})
    right = [_counted(*here, threshold)[0] for threshold in thresholds]
    enough = [
        threshold
        for threshold, count in zip(thresholds, right, strict=True)
        if wanted.accuracy is not None and _bound(count * total // here[0].total, total, error) >= wanted.accuracy
    ]
    threshold = enough[0] if enough else thresholds[right.index(max(right))]
    correct, onwards = _counted(*there, threshold)
    share = 1 - _bound(total - onwards, total, error)
    price = first.price(wanted.items) + second.price(max(1, ceil(wanted.items * share)))
    latency = (first.latency or Fraction(0)) + (second.latency or Fraction(0))
    title = f"{first.model} then {second.model}"
    return Found(price, latency, title, first.pool, threshold, _bound(correct, total, error))


def _counted(first: Any, second: Any, threshold: Decimal) -> tuple[int, int]:
    """(right answers, items that go on) when the second answers what the first is less sure of than `threshold`."""
    on = [value < threshold for value in first.confidence]
    return sum(b if goes else a for a, b, goes in zip(first.right, second.right, on, strict=True)), sum(on)


@cache
def _bound(successes: int, trials: int, error: Fraction) -> Fraction:
    """The largest p in steps of 1/10^6 with P(at least so many successes | p) <= error, by whole numbers alone."""
    low, high = 0, GRID  # `low` holds where there was a success, `high` does not
    if successes == 0:
        return Fraction(0)
    while high - low > 1:
        p = (low + high) // 2
        tail = sum(comb(trials, k) * p**k * (GRID - p) ** (trials - k) for k in range(successes, trials + 1))
        low, high = (p, high) if tail * error.denominator <= error.numerator * GRID**trials else (low, p)
    return Fraction(low, GRID)


def _meets(found: Found, wanted: Requirements) -> bool:
    return (
        (wanted.accuracy is None or (found.accuracy or 0) >= wanted.accuracy)
        and (wanted.latency is None or found.latency <= wanted.latency)
        and (wanted.budget is None or found.price <= wanted.budget)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
