"""Whether plans keep what they promise on data that nothing was chosen on: `python -m benchmarks.evaluations [RESPLITS] [SEED]`

The sample models (small, any batch, large) in float32 and int8 are compiled, and evaluated through dispatch on nine copies of the
900 digits that none of them was trained on, each copy with seeded noise of at most one of 16 grey levels. Then RESPLITS times the
items are split anew into a part that chooses, a part that promises and a part that nobody sees; each time a plan asks for an
accuracy of at least 95 % at 95 % confidence. Printed: how often the chosen way reaches 95 % on the unseen part (at least 94 % of
the plans must), how often it reaches the bound that was promised, and whether the choice is the cheapest when every way and
every threshold is tried with bounds from whole numbers (first 5 splits). Exit status 1 when a line is missed.
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.arguments import counts
from benchmarks.planner import tried
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.planner.models import Task
    from apps.planner.solver import Candidate, Variant
    from tests.dispatch.scene import Scene

NOISY = 9
CHOOSE, PROMISE = 300, 1_500  # items of a split; the others are seen by nobody
WANTED, KEPT = Fraction(95, 100), 0.94
TRIED, ROUNDS = 5, 120


@dataclass(frozen=True)
class Answered:
    """What a program answered on every item: right or wrong [items], and its confidence."""

    right: np.ndarray[Any, Any]
    confidence: list[Decimal]
    output: str

    def part(self, items: np.ndarray[Any, Any]) -> Any:
        """The answers on some of the items, as the solver takes them."""
        from apps.planner.solver import Answers

        return Answers(tuple(bool(one) for one in self.right[items]), tuple(self.confidence[int(one)] for one in items))


def main(arguments: list[str]) -> int:
    resplits, seed = counts("evaluations", __doc__ or "", arguments, resplits=200, seed=1)
    with house():
        variants, answered = _measured(seed)
        for key, one in sorted(answered.items()):
            print(f"  {key:<44} {100 * one.right.mean():6.2f} % of {len(one.right):,} items")
        return _judged(variants, answered, resplits, np.random.default_rng(seed))


def _measured(seed: int) -> tuple[list[Variant], dict[str, Answered]]:
    """Every variant of the task as a plan gathers it, and what the platform measured of each, by the variant's key."""
    from django.utils import timezone

    from apps.planner.candidates import choice_of_task, evaluations_of
    from apps.planner.gathering import gather
    from apps.pricing.selectors import book_in_force, document_of
    from tests.cast import assemble
    from tests.dispatch.real import processors_align
    from tests.dispatch.scene import Scene
    from tests.sales.market import open_market

    scene = Scene(open_market(devices=2), assemble(), timezone.now())
    processors_align(scene)
    task = _evaluated(scene, seed)
    book = document_of(book_in_force(at=scene.now))
    gathered = gather(choice=choice_of_task(task), klass="standard", book=book, instant=scene.now)
    known = evaluations_of(task)
    answered = {}
    for variant in gathered.variants:
        place = gathered.places[variant.key]
        if place.program is not None and (place.program.digest, place.pool.is_host) in known:
            evaluation = known[place.program.digest, place.pool.is_host]
            answered[variant.key] = _answered(task, evaluation.items, evaluation.confidence_output)
    return [variant for variant in gathered.variants if variant.key in answered], answered


def _evaluated(scene: Scene, seed: int) -> Task:
    """The task with every program compiled and evaluated: requests, jobs, leases and judging as in the product."""
    from django.utils import timezone

    from apps.compilation.services import job_run
    from apps.dispatch import evaluations, measurement
    from apps.dispatch.models import Job
    from apps.planner import candidates, evaluating
    from apps.planner.metrics import Metric
    from apps.registry.services import dataset_add
    from tests.dispatch.real import ROOT
    from tests.dispatch.test_execution import execute
    from tests.registry.helpers import version_of

    organisation, actor, now = scene.cast.organisation, scene.cast.engineer, scene.now
    for name in ("digits-small", "digits-batch", "digits-large"):
        version_of(scene.cast, (ROOT / "samples" / f"{name}.onnx").read_bytes(), name)
    file = io.BytesIO()
    np.savez(file, **_noisy(np.load(ROOT / "samples" / "digits.npz"), seed))
    size = file.tell()
    file.seek(0)
    data_set, _ = dataset_add(
        organisation=organisation, file=file, size=size, name="noisy digits", seed=seed, choose_percent=33, actor=actor, now=now
    )
    task = evaluating.task_create(
        organisation=organisation, name="digits", data_set=data_set, metric=Metric("accuracy"), actor=actor, now=now
    )
    for compile_job in evaluating.programs_compile(task=task, actor=actor, now=now):
        job_run(job_id=compile_job.pk, clock=lambda: now)
    for row in candidates.rows_of(task):
        if row.place.pool.is_host and row.program is not None:
            measurement.host_measure(program_id=row.program.pk, pool_slug=row.place.pool.slug, now=now)
    runs = evaluating.evaluations_request(task=task, actor=actor, now=now)
    evaluations.evaluations_take_up(now=now)
    for _ in range(ROUNDS):  # a host's leases wait for their wall clock
        for run in task.runs.filter(state="running"):
            execute(Job.objects.get(pk=str(run.job_id)))
        evaluations.evaluations_settle(now=timezone.now())
        if not task.runs.filter(finished_at=None).exists():
            break
        time.sleep(1)
    states = Counter(task.runs.values_list("state", flat=True))
    print(f"{len(runs)} programs evaluated through dispatch on {data_set.items:,} items each: {dict(states)}")
    return task


def _noisy(digits: Any, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    dice = np.random.default_rng(seed)
    images, labels = np.tile(digits["image"], (NOISY, 1, 1, 1)).astype(np.int64), np.tile(digits["labels"], NOISY)
    noise = dice.integers(-1, 2, images.shape)
    return {"image": np.clip(images + noise, 0, 16).astype(np.uint8), "labels": labels}


def _answered(task: Task, items: dict[str, Any], output: str) -> Answered:
    """The stored answers in the items' own order again."""
    from apps.registry.labelled import split

    parts = split(task.data_set.items, seed=task.data_set.seed, choose=task.data_set.choose)
    right = np.zeros(task.data_set.items, bool)
    confidence = [Decimal(0)] * task.data_set.items
    for indices, part in ((parts.choose, items["choose"]), (parts.promise, items["evaluate"])):
        right[indices] = np.array(part["labels"]) == np.array(part["predicted"])
        for index, value in zip(indices, part["confidence"], strict=True):
            confidence[int(index)] = Decimal(value)
    return Answered(right, confidence, output)


def _judged(variants: list[Variant], answered: dict[str, Answered], resplits: int, dice: np.random.Generator) -> int:
    from apps.planner.solver import Evaluated, Requirements, solve

    wanted, items = Requirements(1_000_000, accuracy=WANTED), len(next(iter(answered.values())).right)
    kept = promised = planned = different = 0
    chosen: Counter[str] = Counter()
    for number in range(resplits):
        order = dice.permutation(items)
        choose, promise, unseen = np.split(order, [CHOOSE, CHOOSE + PROMISE])
        split_so = {key: Evaluated(one.part(choose), one.part(promise), one.output) for key, one in answered.items()}
        market = [replace(variant, evaluated=split_so[variant.key]) for variant in variants]
        solution = solve(market, wanted)
        best = None if solution.chosen is None else solution.candidates[solution.chosen]
        if number < TRIED:
            cheapest = min((one.price for one in tried(market, wanted)), default=None)
            different += cheapest != (best.price if best else None)
        if best is None:
            continue
        share = _share(best, answered, unseen)
        planned, kept, promised = planned + 1, kept + (share >= WANTED), promised + (share >= (best.accuracy or 0))
        chosen[f"{best.title} on {best.pool}"] += 1
    print(f"{resplits} splits ({CHOOSE} choose, {PROMISE} promise, {items - CHOOSE - PROMISE} unseen): {planned} plans")
    for title, times in chosen.most_common():
        print(f"  {times:>4} x {title}")
    print(f"cheapest of every way tried: {different} of {min(resplits, TRIED)} differ")
    if not planned:
        print("no plan was feasible")
        return 1
    print(f"{kept} of {planned} reach {float(WANTED):.0%} on the unseen items ({kept / planned:.1%}; at least {KEPT:.0%})")
    print(f"{promised} of {planned} reach the bound that was promised ({promised / planned:.1%})")
    return 1 if different or kept < KEPT * planned or promised < KEPT * planned else 0


def _share(best: Candidate, answered: dict[str, Answered], items: np.ndarray[Any, Any]) -> Fraction:
    """The share of right answers that the chosen way gives on these items."""
    first, *others = (answered[use.key] for use in best.uses)
    right = first.right[items]
    if others and best.threshold is not None:
        unsure = np.array([first.confidence[int(item)] < best.threshold for item in items])
        right = np.where(unsure, others[0].right[items], right)
    return Fraction(int(right.sum()), len(items))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
