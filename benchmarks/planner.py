"""How long a plan takes, and whether it is the best one: `python -m benchmarks.planner [INSTANCES] [SEED]`

Ten models on five pools, each evaluated on 10,000 labelled items that are made up from SEED, half to choose thresholds on and
half to judge them: plans for several accuracies and objectives through the service on PostgreSQL, in this one process, beside the
time of the solver alone and the processor time of the plan. Then INSTANCES random small markets, each with one of the three
objectives, solved once more by trying every single, cascade of two and three and vote with every threshold, with bounds from
whole numbers (benchmarks/trying.py): every feasible way, its price, thresholds and accuracy, and their order must be the same.
Exit status 1 when a plan takes longer than 2 s, or when a market differs.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.arguments import counts
from benchmarks.private import house
from benchmarks.trying import Found, tried

if TYPE_CHECKING:
    from apps.planner.solver import Candidate, Evaluated, Requirements, Variant
    from apps.registry.models import ModelVersion
    from tests.cast import Cast

MODELS, ITEMS, LABELS = 10, 10_000, 100
ASKED = (
    (None, "cost"),
    (Fraction(80, 100), "cost"),
    (Fraction(90, 100), "cost"),
    (Fraction(94, 100), "cost"),
    (Fraction(999, 1000), "cost"),
    (Fraction(94, 100), "latency"),
    (Fraction(94, 100), "device_time"),
)
LONGEST = 2.0  # seconds of a plan


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
    print(f"{'accuracy':>9} {'objective':>11} {'plan':>7} {'processor':>9} {'solver':>7}  judged of  chosen")
    for wanted, objective in ASKED:
        began, used = time.perf_counter(), time.process_time()
        plan = services.plan_create(
            subject=version,
            requirements=Requirements(1_000_000, accuracy=wanted, objective=objective),
            actor=cast.engineer,
            now=NOW,
        )
        took, used = time.perf_counter() - began, time.process_time() - used
        longest = max(longest, took)
        chosen = f"{plan.chosen['title']} on {plan.chosen['pool']}" if plan.chosen else "nothing is feasible"
        said = "any" if wanted is None else f"{float(wanted):.3f}"
        looked = f"{plan.basis['judged']:>4} {plan.basis['examined']:>5}"
        print(f"{said:>9} {objective:>11} {took:6.2f}s {used:8.2f}s {spent[0]:6.2f}s {looked}  {chosen}")
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
            slug=slug,
            name=slug,
            kind=PoolKind.SIMULATED,
            processor=like.processor,
            processor_class=like.processor_class,
            site=like.site,
            created_at=START,
        )
        Device.objects.create(pool=pool, name=f"{slug}-0")
    family = ModelFamily.objects.create(organisation=cast.organisation, name="made up", created_at=START)
    labels = dice.integers(0, LABELS, ITEMS)
    for number in range(MODELS):
        cycles = 20_000 * (number + 1)
        program = market.program(
            cast.organisation,
            cast.engineer,
            operations=cycles * 7_000,
            interval=cycles,
            latency=cycles * 2,
            name=f"model-{number}",
        )
        version = program.model_version
        program.outputs = [{"name": "probabilities", "dtype": "float32", "shape": [1, LABELS]}]
        program.save(update_fields=["outputs"])
        HostMeasurement.objects.create(
            pool=market.host,
            program_digest=program.digest,
            samples=100,
            p50_ns=cycles * 100,
            p95_ns=cycles * 110,
            p99_ns=cycles * 120,
            hardware="made up",
            measured_at=NOW,
        )
        program.pk, program.digest, program.target = None, program.digest[::-1], "lpu2"
        program.target_digest = market.processors["lpu2"].digest
        program.save(force_insert=True)
        Evaluation.objects.create(
            family=family,
            model_version=version,
            dataset_name="made up",
            dataset_digest="0" * 64,
            metric="accuracy",
            correct=1,
            total=ITEMS // 2,
            lower_bound=0,
            confidence_output="probabilities",
            items=_answers(dice, labels, number),
            created_at=NOW,
        )
    return cast, version


def _answers(dice: np.random.Generator, labels: np.ndarray[Any, Any], number: int) -> dict[str, Any]:
    """A model that is right more often the larger it is, and surer where it is right."""
    right = dice.random(ITEMS) < 0.80 + 0.17 * number / MODELS
    predicted = np.where(right, labels, (labels + dice.integers(1, 6, ITEMS)) % LABELS)
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


def _small(instances: int, dice: np.random.Generator) -> int:
    """How many random small markets are planned otherwise than by trying everything."""
    from apps.planner.solver import solve

    different = feasible = 0
    kinds: Counter[str] = Counter()
    narrowed = 0
    for number in range(instances):
        variants, wanted = _instance(dice)
        solution = solve(variants, wanted)
        best = tried(variants, wanted)
        ours = [found_of(candidate) for candidate in solution.candidates if candidate.feasible]
        chosen = None if solution.chosen is None else solution.candidates[solution.chosen]
        kinds["nothing" if chosen is None else f"{chosen.kind} of {len(chosen.uses)}"] += 1
        narrowed += solution.examined > len(solution.candidates)
        feasible += len(best)
        if best != ours:
            different += 1
            print(f"  DIFFERENT: instance {number}: {set(ours) - set(best)}, by trying {set(best) - set(ours)}")
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(
        f"{instances} small markets with {feasible:,} feasible ways in all: {different} differ in a way or in their order"
    )
    print(f"chosen: {listed}; in {narrowed} markets not every combination is judged")
    return different


def found_of(candidate: Candidate) -> Found:
    """A feasible candidate of the solver, as trying says it."""
    assert candidate.price is not None
    assert candidate.latency is not None
    assert candidate.duration is not None
    return Found(
        candidate.price,
        candidate.latency,
        candidate.duration,
        candidate.title,
        candidate.pool,
        candidate.thresholds,
        candidate.accuracy,
    )


def _instance(dice: np.random.Generator) -> tuple[list[Variant], Requirements]:
    from apps.planner.solver import OBJECTIVES, Requirements, Variant

    here, there = int(dice.integers(5, 40)), int(dice.integers(20, 160))
    labels = dice.integers(0, 4, here + there)
    dearer = int(dice.choice([1, 3, 8]))
    better = 0.07 * (dearer > 1)  # models of one price and one skill may outvote each other
    variants = []
    for place, name in enumerate("abcdef"[: int(dice.integers(1, 7))]):
        evaluated = _evaluated(dice, labels, here, float(dice.uniform(0.45, 0.65) + better * place))
        for pool in ("p", "q"):
            unit = Decimal(int(dice.integers(1, 20)) * dearer**place)  # the better, the dearer, as a rule
            latency = Fraction(int(dice.integers(1, 50)), 1000)
            variants.append(
                Variant(
                    f"{name}@{pool}",
                    name,
                    pool,
                    lambda executions, unit=unit: unit * executions,
                    evaluated,
                    latency,
                    latency * Fraction(1, 2),
                    Fraction(int(dice.integers(0, 9)), 1000),
                    missing=("not compiled",) if dice.random() < 0.1 else (),
                )
            )
    share = None if dice.random() < 0.1 else Fraction(int(dice.integers(40, 80)), 100)
    latency_most = None if dice.random() < 0.6 else Fraction(int(dice.integers(5, 120)), 1000)
    budget = None if dice.random() < 0.6 else Decimal(int(dice.integers(100, 20_000)))
    objective = str(dice.choice(OBJECTIVES))
    return variants, Requirements(
        int(dice.integers(1, 100)), accuracy=share, latency=latency_most, budget=budget, objective=objective
    )


def _evaluated(dice: np.random.Generator, labels: np.ndarray[Any, Any], here: int, skill: float) -> Evaluated:
    from apps.planner.solver import Answers, Evaluated

    def part(wanted: np.ndarray[Any, Any]) -> Answers:
        right = dice.random(len(wanted)) < skill
        predicted = np.where(right, wanted, (wanted + dice.integers(1, 4, len(wanted))) % 4)
        sure = np.where(right, 0.45, 0.1) + dice.integers(0, 10, len(wanted)) / 20
        return Answers.of(wanted.tolist(), predicted.tolist(), [f"{value:.2f}" for value in sure])

    return Evaluated(part(labels[:here]), part(labels[here:]), "probabilities")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
