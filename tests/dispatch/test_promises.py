"""What a plan promised, frozen in quote and contract, beside what jobs kept."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.cli.verify import verify
from apps.dispatch import services
from apps.dispatch.models import Job, JobLabels
from apps.dispatch.promises import promises_of_contract, promises_of_job
from apps.dispatch.services import job_labels_add
from apps.dispatch.services.jobs import Seeded
from apps.planner.models import Plan
from apps.registry.feeds import InputError, Limits
from apps.registry.labelled import labels_read
from apps.sales.models import Contract
from apps.sales.plans import plan_lines_get
from apps.sales.services import quote_accept, quote_create
from apps.timetable.models import Window
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import CLOCK, NOW, open_market
from tests.tiers import some

pytestmark = pytest.mark.django_db
DATA = {"name": "Digits", "digest": "d" * 64, "items": 90, "choose": 30, "seed": 1}


@pytest.fixture
def scene(cast: Cast) -> Scene:
    return Scene(open_market(), cast)


def bought(scene: Scene, *, items: int = 8, accuracy: str | None = "3/4") -> Contract:
    """A contract that follows a plan with promises."""
    program = scene.program()
    row = {
        "kind": "single",
        "title": "net",
        "pool": "lpu-a",
        "programs": [str(program.pk)],
        "accuracy": accuracy,
        "latency": str(Fraction(program.latency_cycles, CLOCK)),
        "completion": (NOW + timedelta(hours=1)).isoformat(),
        "certainty": "exact",
        "price": "9",
        "feasible": True,
        "lines": [{"program": str(program.pk), "executions": items, "expected": items, "per_item": "1"}],
    }
    plan = Plan.objects.create(
        organisation=scene.cast.organisation,
        title="Digits",
        candidates=[row],
        chosen=row,
        basis={"metric": "accuracy", "data_set": DATA},
        requirements={"items": items, "accuracy": "0.7", "klass": "standard"},
        created_by=scene.cast.engineer,
        created_at=NOW,
    )
    planned = plan_lines_get(organisation=scene.cast.organisation, plan_id=plan.pk, items=None)
    quote = quote_create(
        organisation=scene.cast.organisation,
        lines=planned.lines,
        klass="standard",
        pool=planned.pool,
        plan_id=plan.pk,
        actor=None,
        now=NOW,
    )
    return quote_accept(quote_id=quote.pk, organisation=scene.cast.organisation, actor=None, now=NOW)


def answered(scene: Scene, contract: Contract, *, items: int = 8) -> Job:
    """A job whose answers are all class 1."""
    outputs = np.tile(np.array([[[0.1, 0.9]]], "float32"), (items, 1, 1))
    return scene.run(scene.job(contract, items), outputs=outputs)


def text(labels: list[int]) -> io.BytesIO:
    return io.BytesIO("\n".join(map(str, labels)).encode())


def labelled(job: Job, labels: list[int]) -> JobLabels:
    file = text(labels)
    return job_labels_add(job=job, file=file, size=len(file.getvalue()), actor=None, now=NOW)


def test_promises_are_frozen_in_quote_and_terms_and_verify_accepts_both(scene: Scene) -> None:
    contract = bought(scene)
    promises = contract.terms["promises"]
    assert promises == contract.quote.document["promises"]
    assert promises["required"] == {"accuracy": "0.7"}
    assert promises["data"] == {"metric": "accuracy", "name": "Digits", "digest": "d" * 64}
    assert promises["candidate"]["completion"] == contract.quote.document["reservation"][0]["end"]
    assert promises["candidate"]["price"] == contract.quote.document["net"]
    without = {key: value for key, value in contract.quote.document.items() if key != "promises"}
    for document in (contract.quote.document, without):
        assert verify(document, models=[], books=[contract.book]).checked
    plain = scene.contract((scene.program(), 5))
    assert "promises" not in plain.terms
    assert promises_of_contract(plain, now=NOW) == []


def test_what_is_kept_is_counted_stored_and_judged(scene: Scene) -> None:
    contract = bought(scene)
    assert {one.verdict for one in promises_of_contract(contract, now=NOW)} == {"not known yet"}
    job = answered(scene, contract)
    labelled(job, [1, 1, 1, 1, 1, 1, 0, 0])
    kept = {one.name: one for one in promises_of_contract(contract, now=scene.now)}
    assert (kept["accuracy"].kept, kept["accuracy"].verdict) == ("3/4", "kept")
    assert (kept["latency"].kept, kept["latency"].verdict) == (kept["latency"].promised, "kept")
    assert kept["price"].verdict == "kept"
    assert kept["completion"].kept == (job.finished_at.isoformat() if job.finished_at else "")
    labelled(job, [1, 1, 1, 1, 1, 0, 0, 0])
    assert promises_of_job(job, now=scene.now)[0].verdict == "within chance"
    labelled(job, [0] * 8)
    assert promises_of_job(job, now=scene.now)[0].verdict == "missed"
    assert JobLabels.objects.count() == 1


def test_a_job_that_was_done_late_missed_its_promise(scene: Scene) -> None:
    contract = bought(scene)
    job = answered(scene, contract)
    by = next(one for one in promises_of_job(job, now=scene.now) if one.name == "completion")
    Job.objects.filter(pk=job.pk).update(finished_at=NOW + timedelta(hours=3))
    job.refresh_from_db()
    late = next(one for one in promises_of_job(job, now=scene.now) if one.name == "completion")
    assert late.verdict == "missed"
    assert late.promised == by.promised


@pytest.mark.parametrize(
    ("submitted", "finished", "verdict"),
    [
        (timedelta(0), timedelta(milliseconds=1), "missed"),
        (timedelta(seconds=2), timedelta(seconds=2), "not judged"),  # late by as much as the items came later
        (timedelta(seconds=2), timedelta(seconds=2, milliseconds=1), "missed"),
        (timedelta(seconds=2), timedelta(seconds=-1), "kept"),
        (timedelta(days=1), timedelta(days=2), "not judged"),  # submitted when all should have been done
    ],
)
def test_results_are_not_late_by_what_the_items_came_later(
    scene: Scene, submitted: timedelta, finished: timedelta, verdict: str
) -> None:
    contract = bought(scene)
    job = answered(scene, contract)
    window = Window.objects.get(reservation=contract.reservation_id)
    by = datetime.fromisoformat(contract.terms["promises"]["candidate"]["completion"])
    later = window.start + submitted
    if submitted < timedelta(days=1):  # the promise leaves room for items that come two seconds later
        contract.terms["promises"]["candidate"]["completion"] = (by := by + timedelta(seconds=5)).isoformat()
    job.contract, job.submitted_at, job.finished_at = contract, later, by + finished
    Job.objects.filter(pk=job.pk).update(submitted_at=later, finished_at=by + finished)
    found = next(one for one in promises_of_job(job, now=by + timedelta(days=9)) if one.name == "completion")
    assert found.verdict == verdict


def test_items_that_never_came_were_not_promised(scene: Scene) -> None:
    contract = bought(scene)
    verdicts = {
        days: next(
            one for one in promises_of_contract(contract, now=NOW + timedelta(days=days)) if one.name == "completion"
        )
        for days in (0, 3)
    }
    assert [one.verdict for one in verdicts.values()] == ["not known yet", "not judged"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1\n2\n", "The file has 2 labels, but the job has 8 items"),
        (b"1\n-1\n1\n1\n1\n1\n1\n1", r"Item 1 has the label '-1'; a label must be a class number"),
        (b"\xff\xfe\x00", "neither a .npz file nor a text"),
        (b"", "needs one line for each item"),
        (b"1,2\n1\n", "the same number of labels"),
        (b"9\n" * 8, "The labels go up to 9, but output 'y' has 2 classes"),
        (b"PK\x03\x04damaged", "damaged"),
    ],
)
def test_bad_labels_are_refused_with_the_remedy(scene: Scene, data: bytes, said: str) -> None:
    job = answered(scene, bought(scene))
    with pytest.raises(Problem, match=said) as refused:
        job_labels_add(job=job, file=io.BytesIO(data), size=len(data), actor=None, now=NOW)
    assert (refused.value.status, refused.value.kind) == (422, "labels-invalid")
    assert not JobLabels.objects.exists()


def test_made_up_inputs_have_no_labels_and_an_open_job_no_answers(scene: Scene) -> None:
    contract = bought(scene)
    made = services.job_create(contract=contract, arrays=Seeded(2), actor=None, now=NOW)
    with pytest.raises(Problem, match="finished job with outputs"):
        labelled(made, [1, 1])
    with pytest.raises(Problem, match="inputs of this job were generated"):
        labelled(scene.run(made), [1, 1])


@settings(max_examples=some(100))
@given(st.lists(st.integers(0, 2**31 - 2), min_size=1, max_size=20))
def test_labels_are_the_same_as_text_npy_and_npz(labels: list[int]) -> None:
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, np.array(labels))
    np.savez(npz, labels=np.array(labels))
    for file in (npy, npz, text(labels)):
        file.seek(0)
        assert labels_read(file, Limits(), items=len(labels)).tolist() == labels
        file.seek(0)
        with pytest.raises(InputError, match="send one label for each item"):
            labels_read(file, Limits(), items=len(labels) + 1)


def test_labels_are_sent_over_page_and_api(
    scene: Scene, as_user: Callable[..., Client], as_token: Callable[..., Client]
) -> None:
    contract = bought(scene)
    job, cast = answered(scene, contract), scene.cast
    page = as_user(cast.engineer)
    assert "Judge the answers" in page.get(f"/jobs/{job.pk}").content.decode()
    sent = page.post(
        f"/jobs/{job.pk}/labels", {"labels": SimpleUploadedFile("a.csv", b"label\n" + b"1\n" * 8)}, follow=True
    )
    assert "8 of 8 labelled items" in sent.content.decode()
    assert "The promises of the plan and their outcome." in page.get(f"/contracts/{contract.pk}").content.decode()
    api = as_token(cast.owner, cast.organisation, Scope.RUN, Scope.READ)
    answer = api.post(f"/api/v1/jobs/{job.pk}/labels", {"labels": SimpleUploadedFile("a.csv", b"0\n" * 8)})
    assert (answer.status_code, answer.json()["promises"][0]["verdict"]) == (200, "missed")
    names = [one["name"] for one in api.get(f"/api/v1/contracts/{contract.pk}/promises").json()]
    assert names == ["accuracy", "latency", "completion", "price"]
