"""Whether plans keep what they promise on data that nothing was chosen on: `python -m benchmarks.evaluations [RESPLITS] [SEED]`

The sample models (small, any batch, large) in float32 and int8 are compiled, and evaluated through dispatch on nine copies of the
900 digits that none of them was trained on, each copy with seeded noise of at most one of 16 grey levels. A cascade of two, one
of three and a vote run through dispatch too, each bought by a plan: every item's answer must be the one by which the plan judged
it, and the bill at most what was quoted. Then RESPLITS times the items are split anew into a part that chooses, a part that
promises and a part that nobody sees; each time a plan asks for an accuracy of at least 95 % at 95 % confidence. Printed: how
often the chosen way reaches 95 % on the unseen part (at least 94 % of the plans must), how often it and every candidate reach the
bounds that were promised, and whether all feasible ways are those that trying finds, with bounds from whole numbers (first 3
splits). Exit status 1 when a line is missed.
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
from benchmarks.planner import found_of
from benchmarks.private import house
from benchmarks.trying import tried

if TYPE_CHECKING:
    from apps.dispatch.models import Job
    from apps.planner.models import Plan, Task
    from apps.planner.solver import Candidate, Variant
    from apps.sales.models import Contract
    from tests.dispatch.scene import Scene

NOISY = 9
CHOOSE, PROMISE = 300, 1_500  # items of a split; the others are seen by nobody
WANTED, KEPT = Fraction(95, 100), 0.94
TRIED, ROUNDS = 3, 120


@dataclass(frozen=True)
class Answered:
    """What a program answered on every item: right or wrong and the class [items], and its confidence."""

    right: np.ndarray[Any, Any]
    predicted: np.ndarray[Any, Any]
    confidence: list[Decimal]
    output: str

    def part(self, items: np.ndarray[Any, Any]) -> Any:
        """The answers on some of the items, as the solver takes them."""
        from apps.planner.solver import Answers

        return Answers(
            tuple(bool(one) for one in self.right[items]),
            tuple(self.confidence[int(one)] for one in items),
            tuple(int(one) for one in self.predicted[items]),
        )


def main(arguments: list[str]) -> int:
    resplits, seed = counts("evaluations", __doc__ or "", arguments, resplits=200, seed=1)
    with house():
        scene, task, variants, answered = _measured(seed)
        for key, one in sorted(answered.items()):
            print(f"  {key:<44} {100 * one.right.mean():6.2f} % of {len(one.right):,} items")
        wrong = _combinations(scene, task, answered)
        return _judged(variants, answered, resplits, np.random.default_rng(seed)) or wrong


def _measured(seed: int) -> tuple[Scene, Task, list[Variant], dict[str, Answered]]:
    """The scene and its task, every variant of it as a plan gathers it, and what the platform measured of each, by its key."""
    from django.utils import timezone

    from apps.planner.candidates import candidate_models_of_task, evaluations_of
    from apps.planner.variants import variants_collect
    from apps.pricing.selectors import book_in_force, document_of
    from tests.cast import assemble
    from tests.dispatch.real import processors_align
    from tests.dispatch.scene import Scene
    from tests.sales.market import open_market

    scene = Scene(open_market(devices=2), assemble(), timezone.now())
    processors_align(scene)
    task = _evaluated(scene, seed)
    book = document_of(book_in_force(at=scene.now))
    found = variants_collect(models=candidate_models_of_task(task), klass="standard", book=book, instant=scene.now)
    known = evaluations_of(task)
    answered = {}
    for variant in found.variants:
        deployment = found.deployments[variant.key]
        program, is_host = deployment.program, deployment.pool.is_host
        if program is not None and (program.digest, is_host) in known:
            evaluation = known[program.digest, is_host]
            answered[variant.key] = _answered(task, evaluation.items, evaluation.confidence_output)
    return scene, task, [variant for variant in found.variants if variant.key in answered], answered


def _evaluated(scene: Scene, seed: int) -> Task:
    """The task with every program compiled and evaluated: requests, jobs, leases and judging as in the product."""
    from django.utils import timezone

    from apps.compilation.services import job_run
    from apps.dispatch import evaluations, measurement
    from apps.dispatch.models import Job
    from apps.planner import candidates, task_services
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
        organisation=organisation,
        file=file,
        size=size,
        name="noisy digits",
        seed=seed,
        choose_percent=33,
        actor=actor,
        now=now,
    )
    task = task_services.task_create(
        organisation=organisation, name="digits", data_set=data_set, metric=Metric("accuracy"), actor=actor, now=now
    )
    for compile_job in task_services.programs_compile(task=task, actor=actor, now=now):
        job_run(job_id=compile_job.pk, clock=lambda: now)
    for row in candidates.rows_of(task):
        if row.deployment.pool.is_host and row.program is not None:
            measurement.host_measure(program_id=row.program.pk, pool_slug=row.deployment.pool.slug, now=now)
    runs = task_services.evaluations_request(task=task, actor=actor, now=now)
    evaluations.evaluations_start(now=now)
    for _ in range(ROUNDS):  # a host's leases wait for their wall clock
        for run in task.runs.filter(state="running"):
            execute(Job.objects.get(pk=str(run.job_id)))
        evaluations.evaluations_judge(now=timezone.now())
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
    predicted = np.zeros(task.data_set.items, np.int64)
    confidence = [Decimal(0)] * task.data_set.items
    for indices, part in ((parts.choose, items["choose"]), (parts.promise, items["evaluate"])):
        predicted[indices] = np.array(part["predicted"])
        right[indices] = np.array(part["labels"]) == predicted[indices]
        for index, value in zip(indices, part["confidence"], strict=True):
            confidence[int(index)] = Decimal(value)
    return Answered(right, predicted, confidence, output)


def _combinations(scene: Scene, task: Task, answered: dict[str, Answered]) -> int:
    """Buys the best cascade of two, of three and the best vote of a plan, runs them on the data set; how many went wrong."""
    from apps.planner.services import plan_create
    from apps.planner.solver import Requirements

    wanted = Requirements(items=task.data_set.items)
    plan = plan_create(subject=task, requirements=wanted, actor=scene.cast.engineer, now=scene.now)
    wrong = 0
    for kind, parts in (("cascade", 2), ("cascade", 3), ("ensemble", 3)):
        fitting = [
            row for row in plan.candidates if (row["kind"], len(row["models"])) == (kind, parts) and row["feasible"]
        ]
        best = max(fitting, key=lambda row: Fraction(row["correct"], row["total"]), default=None)
        if best is None and kind == "ensemble":
            best = _vote(plan)  # none was promising enough to be judged; it must run all the same
        if best is None:
            print(f"  no {kind} of {parts} is feasible")
            wrong += 1
            continue
        wrong += not _runs(scene, task, plan, best, answered)
    return wrong


def _vote(plan: Plan) -> dict[str, Any] | None:
    """A vote of the float32 programs of one pool, the best one first, as a row of the plan."""
    alone = [row for row in plan.candidates if row["kind"] == "single" and row["pool"] == "lpu-a" and row["feasible"]]
    own = [row for row in alone if " in " not in row["models"][0]["name"] and row["correct"] is not None]
    three = sorted(own, key=lambda row: -row["correct"])[:3]
    outputs = [row["outputs"][0] for row in plan.candidates if row["kind"] == "cascade"][:1] * 3
    if len(three) < 3 or not outputs:
        return None
    together = {name: [row[name][0] for row in three] for name in ("models", "programs", "lines")}
    title = f"vote of {', '.join(row['title'] for row in three)} (no plan judged one)"
    return {
        **three[0],
        **together,
        "kind": "ensemble",
        "title": title,
        "outputs": outputs,
        "thresholds": [],
        "shares": [],
    }


def _runs(scene: Scene, task: Task, plan: Plan, row: dict[str, Any], answered: dict[str, Answered]) -> bool:
    """Quote, contract, job and bill of a plan's row: whether every item's answer is the one that was judged."""
    from apps.planner.models import Plan
    from apps.registry.selectors import data_set_read
    from apps.sales.plans import plan_lines_get
    from apps.sales.services import quote_accept, quote_create

    who, actor = scene.cast.organisation, scene.cast.engineer
    made = Plan.objects.create(
        organisation=who,
        task=task,
        title="one row",
        requirements=plan.requirements,
        candidates=[],
        chosen=row,
        basis=plan.basis,
        created_by=actor,
        created_at=scene.now,
    )
    planned = plan_lines_get(organisation=who, plan_id=made.pk, items=None)
    quote = quote_create(
        organisation=who,
        lines=planned.lines,
        klass="standard",
        pool=planned.pool,
        plan_id=made.pk,
        actor=actor,
        now=scene.now,
    )
    contract = quote_accept(quote_id=quote.pk, organisation=who, actor=actor, now=scene.now)
    data = data_set_read(task.data_set)
    job, found, billed = _executed(scene, contract, data.inputs)
    keys = [_key(model, row["pool"], answered) for model in row["models"]]
    right, decided = _expected(row, [answered[key] for key in keys])
    same = bool((found["takt_stage"] == decided).all())
    labels = data.labels
    assert labels is not None
    scores = found[row["outputs"][0]].reshape(len(labels), -1)
    same = same and bool(((scores.argmax(axis=1) == labels) == right).all())
    stages = [int((decided == place).sum()) for place in range(len(keys))]
    print(
        f"  {row['title']} on {row['pool']}: {job.state}, decided by {stages}, {right.mean():.2%} right, "
        f"{'as judged item by item' if same else 'OTHERWISE THAN JUDGED'}; quoted {contract.net:f}, billed {billed:f}"
    )
    return same and job.state == "done" and billed <= contract.net


def _executed(scene: Scene, contract: Contract, inputs: dict[str, Any]) -> tuple[Job, dict[str, Any], Decimal]:
    """A job on all items: its state, its outputs and what the ledger says that it cost."""
    from django.core.files.storage import default_storage

    from apps.dispatch.models import Lease
    from apps.dispatch.services import job_create
    from apps.ledger.models import UsageRow
    from apps.pricing.rating import exact_sum
    from apps.registry.feeds import arrays_unpack
    from tests.dispatch.test_execution import execute

    program = contract.lines.select_related("program").order_by("id")[0].program
    arrays = {program.inputs[0]["name"]: next(iter(inputs.values()))}
    job: Job = job_create(contract=contract, arrays=arrays, actor=scene.cast.engineer, now=scene.now)
    for _ in range(10):
        execute(job)
        if job.is_final:
            break
    with default_storage.open(job.outputs_key) as file:
        found = arrays_unpack(file.read())
    leases = Lease.objects.filter(stage__job=job).values_list("pk", flat=True)
    return job, found, exact_sum(UsageRow.objects.filter(lease_id__in=list(leases)).values_list("amount", flat=True))


def _key(model: dict[str, Any], pool: str, answered: dict[str, Answered]) -> str:
    """The variant that a plan's row names."""
    precision = model["name"].partition(" in ")[2]
    key = f"{model['version']}@{pool}" + (f":{precision}" if precision else "")
    assert key in answered, key
    return key


def _expected(row: dict[str, Any], answers: list[Answered]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Right or wrong, and whose answer counts, item by item, from what each program answered alone."""
    items = len(answers[0].right)
    decided = np.zeros(items, int)
    for item in range(items):
        if row["kind"] == "ensemble":
            first, second, third = (int(one.predicted[item]) for one in answers)
            decided[item] = int(second == third and first != second)
            continue
        while decided[item] < len(row["thresholds"]):
            place = int(decided[item])
            if answers[place].confidence[item] >= Decimal(row["thresholds"][place]):
                break
            decided[item] += 1
    right = np.array([answers[int(place)].right[item] for item, place in enumerate(decided)])
    return right, decided


def _judged(variants: list[Variant], answered: dict[str, Answered], resplits: int, dice: np.random.Generator) -> int:
    from apps.planner.solver import Evaluated, Requirements, solve

    wanted, items = Requirements(1_000_000, accuracy=WANTED), len(next(iter(answered.values())).right)
    kept = promised = planned = different = together = 0
    chosen: Counter[str] = Counter()
    for number in range(resplits):
        order = dice.permutation(items)
        choose, promise, unseen = np.split(order, [CHOOSE, CHOOSE + PROMISE])
        split_so = {key: Evaluated(one.part(choose), one.part(promise), one.output) for key, one in answered.items()}
        market = [replace(variant, evaluated=split_so[variant.key]) for variant in variants]
        solution = solve(market, wanted)
        best = None if solution.chosen is None else solution.candidates[solution.chosen]
        if number < TRIED:
            different += tried(market, wanted) != [found_of(one) for one in solution.candidates if one.feasible]
        together += all(_share(one, answered, unseen) >= (one.accuracy or 0) for one in solution.candidates)
        if best is None:
            continue
        share = _share(best, answered, unseen)
        planned, kept, promised = planned + 1, kept + (share >= WANTED), promised + (share >= (best.accuracy or 0))
        chosen[f"{best.title} on {best.pool}"] += 1
    print(f"{resplits} splits ({CHOOSE} choose, {PROMISE} promise, {items - CHOOSE - PROMISE} unseen): {planned} plans")
    for title, times in chosen.most_common():
        print(f"  {times:>4} x {title}")
    print(f"all ways tried: {different} of {min(resplits, TRIED)} differ")
    if not planned:
        print("no plan was feasible")
        return 1
    print(
        f"{kept} of {planned} reach {float(WANTED):.0%} on the unseen items ({kept / planned:.1%}; at least {KEPT:.0%})"
    )
    print(f"{promised} of {planned} reach the bound that was promised ({promised / planned:.1%})")
    print(f"{together} of {resplits} splits in which every candidate reaches its bound ({together / resplits:.1%})")
    return 1 if different or kept < KEPT * planned or promised < KEPT * planned else 0


def _share(best: Candidate, answered: dict[str, Answered], items: np.ndarray[Any, Any]) -> Fraction:
    """The share of right answers that the chosen way gives on these items."""
    answers = [answered[use.key] for use in best.uses]
    right = answers[0].right[items]
    if best.kind == "ensemble":
        given = [one.predicted[items] for one in answers]
        right = np.where(given[1] == given[2], answers[1].right[items], right)
    unsure = np.ones(len(items), bool)
    for one, following, threshold in zip(answers, answers[1:], best.thresholds, strict=False):
        unsure &= np.array([one.confidence[int(item)] < threshold for item in items])
        right = np.where(unsure, following.right[items], right)
    return Fraction(int(right.sum()), len(items))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
