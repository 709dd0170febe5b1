"""Cascades of three programs and ensembles, from the plan to the bill: what runs, whose answer counts, what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.compilation.models import Program
from apps.dispatch import services
from apps.dispatch.cascade import elected
from apps.dispatch.models import Job, JobState, Lease
from apps.dispatch.progress import job_view
from apps.dispatch.selectors import offer_of
from apps.ledger.models import UsageRow
from apps.planner.models import Plan
from apps.pricing.rating import exact_sum
from apps.registry.feeds import arrays_unpack
from apps.sales.models import Contract
from apps.sales.plans import plan_lines_get
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.dispatch.real import meant, real_program
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute, outputs_of
from tests.sales.market import open_market
from tests.tiers import some

ITEMS = 60


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast, timezone.now())


def bought(scene: Scene, *programs: Program, shares: tuple[str, ...], **chosen: Any) -> Contract:
    """A plan with this choice, its quote and its contract."""
    lines = [
        {"program": str(program.pk), "executions": int(ITEMS * float(share)), "expected": 1, "per_item": share}
        for program, share in zip(programs, shares, strict=True)
    ]
    plan = Plan.objects.create(
        organisation=scene.cast.organisation,
        title="Together",
        candidates=[],
        basis={},
        created_by=scene.cast.engineer,
        requirements={"items": ITEMS, "klass": "standard"},
        created_at=scene.now,
        chosen={"pool": "lpu-a", "programs": [str(program.pk) for program in programs], "lines": lines, **chosen},
    )
    planned = plan_lines_get(organisation=scene.cast.organisation, plan_id=plan.pk, items=None)
    quote = quote_create(
        organisation=scene.cast.organisation,
        lines=planned.lines,
        klass=planned.klass,
        pool=planned.pool,
        plan_id=plan.pk,
        actor=scene.cast.engineer,
        now=scene.now,
    )
    return quote_accept(
        quote_id=quote.pk, organisation=scene.cast.organisation, actor=scene.cast.engineer, now=scene.now
    )


def inputs_of(job: Job) -> np.ndarray:
    with default_storage.open(job.inputs_key) as file:
        return arrays_unpack(file.read())["x"]


def test_a_cascade_of_three_hands_on_twice_and_says_who_decided(present: Scene) -> None:
    scales = (2.0, -5.0, 1.0)
    programs = [real_program(present, scale=scale) for scale in scales]
    levels = ("0.945", "0.62")
    contract = bought(present, *programs, shares=("1", "1", "1"), kind="cascade", thresholds=levels, outputs=("y", "y"))
    job = present.job(contract, ITEMS, shape=(1, 8))
    for _ in scales:
        execute(job)
    assert job.state == JobState.DONE, job.problem
    found, x = outputs_of(job), inputs_of(job)
    each = [meant(x, scale=scale) for scale in scales]
    unsure = [
        one.reshape(ITEMS, -1).max(axis=1).round(6) < float(level) for one, level in zip(each, levels, strict=False)
    ]
    wanted = np.where(unsure[0], np.where(unsure[1], 2, 1), 0)
    assert set(wanted) == {0, 1, 2}, "every program decides something"
    assert found["takt_stage"].tolist() == wanted.tolist()
    assert np.abs(found["y"] - np.choose(wanted[:, None, None], each)).max() < 1e-6
    counts = [ITEMS, int(unsure[0].sum()), int((unsure[0] & unsure[1]).sum())]
    used = dict(UsageRow.objects.values_list("program_digest", "quantity"))
    assert [used[program.digest] for program in programs] == counts
    view = job_view(job, now=timezone.now())
    assert view.fallbacks == [("0.945", "y"), ("0.62", "y")]
    assert view.cost == exact_sum(UsageRow.objects.values_list("amount", flat=True)) == view.quoted
    assert view.quoted_most == contract.net


def test_an_ensemble_gives_the_answer_of_two_and_is_billed_what_was_quoted(present: Scene) -> None:
    """The first looks for the least value, the two others for the largest: they outvote it wherever those differ."""
    programs = [real_program(present, scale=scale) for scale in (-5.0, 2.0, 1.0)]
    contract = bought(present, *programs, shares=("1", "1", "1"), kind="ensemble", thresholds=[], outputs=("y",) * 3)
    assert offer_of(contract).left == ITEMS
    job = present.job(contract, ITEMS, shape=(1, 8))
    assert all(execute(job))
    execute(job)
    assert job.state == JobState.DONE, job.problem
    found, x = outputs_of(job), inputs_of(job)
    assert np.abs(found["y"] - meant(x)).max() < 1e-6
    assert (found["takt_stage"].tolist(), found["takt_votes"].tolist()) == ([1] * ITEMS, [2] * ITEMS)
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == contract.net
    assert job_view(job, now=timezone.now()).quoted_most == contract.net


def test_an_ensemble_that_ends_early_counts_no_votes_and_returns_what_it_did_not_run(present: Scene) -> None:
    programs = [real_program(present, scale=scale) for scale in (-5.0, 2.0, 1.0)]
    contract = bought(present, *programs, shares=("1", "1", "1"), kind="ensemble", thresholds=[], outputs=("y",) * 3)
    job = present.job(contract, ITEMS, shape=(1, 8))
    for lease in Lease.objects.filter(stage__job=job, stage__position=0):
        present.finish(present.take(lease), outputs=np.zeros((lease.count, 1, 8), "float32"))
    services.job_cancel(job_id=job.pk, actor=None, now=present.now)
    job.refresh_from_db()
    found = outputs_of(job)
    assert not found["takt_votes"].any()
    assert not found["takt_stage"].any()
    assert [line.left for line in contract.lines.order_by("id")].count(ITEMS) == 2


@settings(max_examples=some(100))
@given(st.lists(st.tuples(*[st.integers(-1, 3)] * 3), min_size=1, max_size=9))
def test_the_answer_of_two_counts_else_that_of_the_first(items: list[tuple[int, int, int]]) -> None:
    first, second, third = (np.array([item[place] for item in items]) for place in range(3))
    outvoted, votes = elected(first, second, third)
    for item, answers in enumerate(items):
        winner = next((answer for answer in answers if answers.count(answer) > 1), answers[0])
        assert (answers[1] if outvoted[item] else answers[0]) == winner
        assert votes[item] == answers.count(winner)
