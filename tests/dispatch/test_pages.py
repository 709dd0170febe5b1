"""The job pages: submit, watch, fetch, cancel."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.dispatch.models import Job, JobState, Lease
from apps.registry.feeds import arrays_pack
from apps.sales.services import contract_end
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

SignIn = Callable[[User], Client]


@pytest.fixture
def present(cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast, timezone.now())


@pytest.fixture
def browser(present: Scene, as_user: SignIn) -> Client:
    return as_user(present.cast.engineer)


def test_without_a_contract_the_pages_say_what_is_needed(browser: Client) -> None:
    assert "accept a quote first" in browser.get("/jobs").content.decode()
    assert "Accept a quote first" in browser.get("/jobs/new").content.decode()


def test_a_file_is_submitted_and_its_job_watched_to_its_end(present: Scene, browser: Client) -> None:
    contract = present.contract((present.program(name="eye"), 50))
    assert "&#x27;x&#x27; (float32, 1 × 4)" in browser.get(f"/jobs/new?contract={contract.pk}").content.decode()
    file = SimpleUploadedFile("inputs.npz", arrays_pack({"x": np.ones((5, 4), "float32")}))
    response = browser.post("/jobs/new", {"contract": str(contract.pk), "inputs": file})
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}"
    page = browser.get(f"/jobs/{job.pk}").content.decode()
    assert 'hx-trigger="every 1s"' in page
    assert "eye" in page
    part = browser.get(f"/jobs/{job.pk}", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    present.run(job)
    done = browser.get(f"/jobs/{job.pk}").content.decode()
    assert 'hx-trigger="every' not in done
    assert "Download outputs" in done
    assert browser.get(f"/jobs/{job.pk}/outputs")["Content-Type"] == "application/zip"


def test_what_data_decides_is_shown_as_its_bound_beside_what_was_executed(present: Scene, browser: Client) -> None:
    for exact, wanted in ((False, ("Bound vs. executed", "90,000", "123")), (True, ())):
        program = present.program(
            name=f"exact {exact}", operations=1_000_000, interval=90_000, latency=90_000, exact=exact
        )
        job = present.job(present.contract((program, 50)), 2)
        lease = present.take(Lease.objects.get(stage__job=job))
        assert "Bound vs." not in browser.get(f"/jobs/{job.pk}").content.decode()
        present.finish(lease, **({} if exact else {"cycles": 123}))
        page = browser.get(f"/jobs/{job.pk}").content.decode()
        assert ("Bound vs. executed" in page) is not exact
        shown = re.sub(r"<[^>]*>", " ", page).replace("\N{NARROW NO-BREAK SPACE}", ",")
        assert all(text in shown for text in wanted)


def test_seeded_items_try_a_program_without_a_file(present: Scene, browser: Client) -> None:
    contract = present.contract((present.program(), 50))
    browser.post("/jobs/new", {"contract": str(contract.pk), "sample_items": "6"})
    assert Job.objects.get().items == 6


def test_the_form_chooses_the_contract_of_its_address_and_no_other(present: Scene, browser: Client) -> None:
    older, newer = (present.contract((present.program(), 50)) for _ in range(2))

    def chosen(wanted: str) -> list[str]:
        page = browser.get(f"/jobs/new?contract={wanted}").content.decode()
        return re.findall(r'<option value="([^"]*)" selected', page)

    assert chosen(str(older.pk)) == [str(older.pk)]
    contract_end(
        contract_id=older.pk, organisation=present.cast.organisation, actor=present.cast.owner, now=present.now
    )
    assert chosen(str(older.pk)) == [""], "another contract would pay"
    page = browser.get(f"/jobs/new?contract={older.pk}").content.decode()
    assert "This contract is closed" in page
    refused = browser.post("/jobs/new", {"contract": "", "sample_items": "6"})
    assert (refused.status_code, Job.objects.count()) == (422, 0)
    assert chosen(str(newer.pk)) == [str(newer.pk)]
    for unknown in (uuid4(), "xyz"):
        assert browser.get(f"/jobs/new?contract={unknown}").status_code == 404


def test_the_same_form_sent_twice_makes_one_job(present: Scene, browser: Client) -> None:
    contract = present.contract((present.program(), 50))
    page = browser.get(f"/jobs/new?contract={contract.pk}").content.decode()
    (mark,) = re.findall(r'name="once" value="([0-9a-f-]{36})"', page)
    form = {"contract": str(contract.pk), "sample_items": "6", "once": mark}
    too_many = browser.post("/jobs/new", form | {"sample_items": "60"})
    assert too_many.status_code == 409, "a refusal uses nothing up"
    first, second = (browser.post("/jobs/new", form) for _ in range(2))
    assert first["Location"] == second["Location"] == f"/jobs/{Job.objects.get().pk}"
    assert "You already submitted this form" in browser.get(second["Location"]).content.decode()
    other = browser.post("/jobs/new", form | {"sample_items": "7"})
    assert other["Location"] != first["Location"], "another content is another job"
    fresh = browser.get("/jobs/new").content.decode()
    assert mark not in fresh
    assert Job.objects.count() == 2


def test_a_refusal_is_shown_on_the_form_with_every_fault(present: Scene, browser: Client) -> None:
    contract = present.contract((present.program(), 50))
    file = SimpleUploadedFile("inputs.npz", arrays_pack({"z": np.ones((5, 9), "float32")}))
    response = browser.post("/jobs/new", {"contract": str(contract.pk), "inputs": file})
    assert response.status_code == 422
    text = response.content.decode()
    assert "is missing" in text
    assert "There is no input" in text
    neither = browser.post("/jobs/new", {"contract": str(contract.pk)})
    assert neither.status_code == 422
    assert "enter a number of test inputs" in neither.content.decode()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"sample_items": "-5"}, "a whole number of items from 1 to 100,000"),
        ({"sample_items": "0"}, "a whole number of items from 1 to 100,000"),
        ({"sample_items": str(10**17)}, "a whole number of items from 1 to 100,000"),
        ({"sample_items": "9" * 10_000}, "a whole number of items from 1 to 100,000"),
        ({"sample_items": "many \N{PILE OF POO}"}, "a whole number of items from 1 to 100,000"),
        ({"sample_items": "3", "name": "x" * 10_000}, "at most 80 characters"),
        ({"sample_items": "3", "name": "a\u202eb"}, "without control characters"),
        ({"sample_items": "3", "inputs": SimpleUploadedFile("x.npz", b"PK")}, "not both"),
        ({"inputs": SimpleUploadedFile("x.npz", b"")}, "This file is empty"),
        ({"inputs": SimpleUploadedFile("x.npz", b"text")}, "not a .npz file"),
        ({"sample_items": "3", "contract": "nonsense"}, "Select a valid choice"),
    ],
)
def test_nonsense_in_the_form_ends_in_a_sentence(
    present: Scene, browser: Client, sent: dict[str, object], said: str
) -> None:
    contract = present.contract((present.program(), 50))
    answer = browser.post("/jobs/new", {"contract": str(contract.pk), **sent})
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not Job.objects.exists()


def test_a_job_is_cancelled_from_its_page(present: Scene, browser: Client) -> None:
    job = present.job(present.contract((present.program(), 50)), 5)
    assert browser.post(f"/jobs/{job.pk}/cancel")["Location"] == f"/jobs/{job.pk}"
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    again = browser.post(f"/jobs/{job.pk}/cancel", follow=True).content.decode()
    assert "This job is already cancelled." in again, "a second tab"


def test_the_page_says_when_a_job_starts_and_what_it_waits_for(present: Scene, browser: Client) -> None:
    job = present.job(present.contract((present.program(), 50)), 5)
    assert "No worker of pool" in browser.get(f"/jobs/{job.pk}").content.decode()
    later = present.now + timedelta(hours=1)
    Lease.objects.filter(stage__job=job).update(state="planned", device_from=later, device_to=later)
    page = browser.get(f"/jobs/{job.pk}").content.decode()
    assert "Starts at" in page
    assert "The device time reserved for this job has not started." in page
    before = present.job(present.contract((present.program(), 50)), 5)
    page = browser.get(f"/jobs/{job.pk}").content.decode()
    assert "of your other jobs run" in page
    present.run(before)
    assert "exactly as quoted" in browser.get(f"/jobs/{before.pk}").content.decode()


def test_a_failed_job_says_why(present: Scene, browser: Client) -> None:
    from apps.dispatch.services import job_fail

    job = present.job(present.contract((present.program(), 50)), 5)
    job_fail(job_id=job.pk, problem="cycles: compiled 5, counted 6", now=present.now)
    assert "cycles: compiled 5, counted 6" in browser.get(f"/jobs/{job.pk}").content.decode()


def test_the_list_filters_by_state(present: Scene, browser: Client) -> None:
    contract = present.contract((present.program(), 50))
    done, open_job = present.run(present.job(contract, 2)), present.job(contract, 3)
    text = browser.get("/jobs?state=queued").content.decode()
    assert str(open_job.pk) in text
    assert str(done.pk) not in text


def test_the_list_says_that_an_unknown_filter_is_ignored(present: Scene, browser: Client) -> None:
    job = present.job(present.contract((present.program(), 50)), 2)
    response = browser.get("/jobs?state=nonsense&contract=nonsense")
    text = response.content.decode()
    assert response.status_code == 200
    assert str(job.pk) in text
    assert "There is no state “nonsense”, so jobs of every state are shown." in text
    assert "Choose Queued, Running, Done, Failed or Cancelled." in text
    assert "There is no contract “nonsense”, so jobs of every contract are shown." in text
    assert "There is no" not in browser.get("/jobs?state=queued").content.decode()
