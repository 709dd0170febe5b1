"""A second task that nobody trained here: `python -m benchmarks.agreement [ITEMS] [SEED]`

The public text direction classifier `cls`, which bin/models.py fetches, on ITEMS lines of random text (at most 500), upright
or upside down, on light grounds with noise, in the platform's own way: the data are uploaded, split by SEED, the model is
compiled in float32 and int8 for `lpu`, int8 calibrated on items that choose, and each program is evaluated through dispatch with
the metric agreement. Printed: how often int8 answers as float32 on the items that promise, which neither calibration nor any
choice saw, with the bound at 95 % confidence; and how often each is right about the direction. Exit status 1 when int8's bound is
below 90 %, or a program was not judged.
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.arguments import parser, whole
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.planner.models import EvaluationRun, Task
    from tests.dispatch.scene import Scene

NAME, HEIGHT, WIDTH = "cls", 48, 192
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
CHOOSE_PERCENT, LEAST = 33, Fraction(90, 100)
MOST, ROUNDS = 500, 60
Array = np.ndarray[Any, np.dtype[Any]]


def main(arguments: list[str]) -> int:
    command = parser("agreement", __doc__ or "")
    command.add_argument("items", nargs="?", type=whole, default=200, help=f"from 20 to {MOST}; default: 200")
    command.add_argument("seed", nargs="?", type=whole, default=1, help="default: 1")
    given = command.parse_args(arguments)
    if not 20 <= given.items <= MOST:
        command.error(f"items are from 20 to {MOST}")
    with house():
        return _judged(*_evaluated(given.items, given.seed))


def lines(items: int, seed: int) -> tuple[Array, Array]:
    """(pictures float32 [items, 3, HEIGHT, WIDTH] from -1 to 1, whether upside down int64 [items])."""
    from PIL import Image, ImageDraw, ImageFont

    dice = np.random.default_rng(seed)
    pictures, turned = np.zeros((items, 3, HEIGHT, WIDTH), np.float32), dice.integers(0, 2, items)
    for item in range(items):
        words = ["".join(dice.choice(list(LETTERS), dice.integers(2, 7))) for _ in range(3)]
        picture = Image.new("L", (WIDTH, HEIGHT), int(dice.integers(170, 256)))
        font = ImageFont.load_default(int(dice.integers(22, 34)))
        ImageDraw.Draw(picture).text(
            (4, int(dice.integers(2, 10))), " ".join(words), int(dice.integers(0, 90)), font=font
        )
        grey = np.asarray(picture, np.float32) + dice.normal(0, 6, (HEIGHT, WIDTH))
        grey = grey[::-1, ::-1] if turned[item] else grey
        pictures[item] = np.clip(grey, 0, 255).astype(np.float32)[None] / 127.5 - 1
    return pictures, turned


def _evaluated(items: int, seed: int) -> tuple[Task, list[EvaluationRun], Array]:
    """The task with its evaluations ended: requests, jobs, leases and judging as in the product."""
    from django.utils import timezone

    from apps.compilation.services import job_run
    from apps.planner import task_services
    from apps.planner.metrics import Metric
    from apps.registry.services import dataset_add
    from bin.models import fetch
    from tests.cast import assemble
    from tests.dispatch.real import processors_align
    from tests.dispatch.scene import Scene
    from tests.registry.helpers import version_of
    from tests.sales.market import open_market

    scene = Scene(open_market(devices=2), assemble(), timezone.now())
    processors_align(scene)
    for pool in (scene.market.lpu2, scene.market.host):  # one processor: the simulator's bits are the same on the other
        pool.is_active = False
        pool.save(update_fields=["is_active"])
    organisation, actor, now = scene.cast.organisation, scene.cast.engineer, scene.now
    version_of(scene.cast, fetch(NAME).read_bytes(), NAME)
    pictures, turned = lines(items, seed)
    file = io.BytesIO()
    np.savez_compressed(file, x=pictures)
    size = file.tell()
    file.seek(0)
    data_set, _ = dataset_add(
        organisation=organisation,
        file=file,
        size=size,
        name="lines",
        seed=seed,
        choose_percent=CHOOSE_PERCENT,
        actor=actor,
        now=now,
    )
    task = task_services.task_create(
        organisation=organisation, name="direction", data_set=data_set, metric=Metric("agreement"), actor=actor, now=now
    )
    for job in task_services.programs_compile(task=task, actor=actor, now=now):
        job_run(job_id=job.pk, clock=lambda: now)
    return task, _run(scene, task), turned


def _run(scene: Scene, task: Task) -> list[EvaluationRun]:
    from django.utils import timezone

    from apps.dispatch import evaluations
    from apps.dispatch.models import Job
    from apps.planner import task_services
    from tests.dispatch.test_execution import execute

    task_services.evaluations_request(task=task, actor=scene.cast.engineer, now=scene.now)
    evaluations.evaluations_start(now=scene.now)
    for _ in range(ROUNDS):
        for run in task.runs.filter(state="running"):
            execute(Job.objects.get(pk=str(run.job_id)))
        evaluations.evaluations_judge(now=timezone.now())
        if not task.runs.filter(finished_at=None).exists():
            break
        time.sleep(1)
    return list(task.runs.select_related("program", "pool", "evaluation").order_by("pool__slug", "-program__precision"))


def _judged(task: Task, runs: list[EvaluationRun], turned: Array) -> int:
    from apps.registry.labelled import split

    data = task.data_set
    parts = split(data.items, seed=data.seed, choose=data.choose)
    states = dict(Counter(run.state for run in runs))
    print(
        f"{NAME} on {data.items:,} lines: {len(parts.choose)} choose and calibrate, {len(parts.promise)} promise; {states}"
    )
    failed = 0
    for run in runs:
        if run.evaluation is None:
            print(f"  {run.program.precision:8} on {run.pool.slug:9} not judged: {run.problem or run.note}")
            failed += 1
            continue
        found = run.evaluation
        right = int((np.array(found.items["evaluate"]["predicted"]) == turned[parts.promise]).sum())
        print(
            f"  {run.program.precision:8} on {run.pool.slug:9} agrees {found.correct} of {found.total}, at least "
            f"{100 * found.lower_bound:.2f} %; right about the direction {right} of {found.total}"
        )
        failed += found.lower_bound < LEAST
    if {run.program.precision for run in runs} != {"float32", "int8"}:
        print("a precision is missing")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
