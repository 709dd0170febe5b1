"""Compiles that are asked for together, and the page of their progress."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.compilation.models import CompileJob, CompileRequest
from tests.cast import Cast
from tests.compilation.test_jobs import run_remembered, sample_of

AsUser = Callable[[User], Client]
pytestmark = pytest.mark.django_db(transaction=True)


def test_one_page_shows_all_programs_and_one_program_leads_to_its_report(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-small")
    answer = client.post(f"/versions/{version.pk}", {"targets": ["lpu", "lpu2"], "precision": ["float32"]})
    page = answer["Location"]
    shown = client.get(page).content.decode()
    assert shown.count("<tr>") == 3
    assert "every 1s" in shown
    assert "0 of 2 programs ready" in shown
    first, second = CompileJob.objects.order_by("target")
    run_remembered(first)
    part = client.get(page, headers={"HX-Request": "true"})
    assert ("1 of 2 programs ready" in part.content.decode(), "HX-Redirect" in part) == (True, False)
    run_remembered(second)
    part = client.get(page, headers={"HX-Request": "true"})
    assert "HX-Redirect" not in part, "two programs: the person chooses"
    assert "every 1s" not in part.content.decode()
    made = [one.program_ids[0] for one in CompileJob.objects.order_by("target")]
    assert f"/programs/compare?p={made[0]}&amp;p={made[1]}" in part.content.decode()
    assert "lpu, float32: compiled" in part.content.decode()


def test_the_compile_after_an_upload_uses_suggestions_once(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-batch")
    page = client.post(f"/versions/{version.pk}/compile")["Location"]
    job = CompileJob.objects.get()
    assert (page, job.dims, job.precision) == (f"/compiles/requests/{job.request_id}", {"batch": 1}, "float32")
    run_remembered(job)
    part = client.get(page, headers={"HX-Request": "true"})
    assert part["HX-Redirect"] == f"/programs/{CompileJob.objects.get().program_ids[0]}"
    assert client.post(f"/versions/{version.pk}/compile")["Location"] == f"/versions/{version.pk}"
    assert CompileRequest.objects.count() == 1


def test_the_form_remembers_the_last_compile(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-batch")
    form = {"targets": ["lpu2"], "precision": ["int8"], "dim-batch": "3, 5"}
    assert client.post(f"/versions/{version.pk}", form).status_code == 302
    shown = client.get(f"/versions/{version.pk}").content.decode()
    assert 'value="3, 5"' in shown
    assert shown.count("checked") >= 2
    kept = client.post(f"/versions/{version.pk}", {**form, "dim-batch": "many"})
    assert kept.status_code == 422
    assert 'value="many"' in kept.content.decode()
    assert "You already have this file" in client.get(f"/versions/{version.pk}?already=1").content.decode()


def test_all_unfinished_compiles_of_a_request_are_cancelled_at_once(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-small")
    page = client.post(f"/versions/{version.pk}", {"targets": ["lpu", "lpu2"], "precision": ["float32"]})["Location"]
    run_remembered(CompileJob.objects.get(target="lpu"))
    assert "Cancel" in client.get(page).content.decode()
    assert client.post(f"{page}/cancel")["Location"] == page
    assert list(CompileJob.objects.order_by("target").values_list("state", flat=True)) == ["done", "cancelled"]
    shown = client.get(page).content.decode()
    assert "1 of 2 programs compiled; 1 compile failed or cancelled" in shown
    assert "Compile again" in shown


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("", "Enter whole numbers from 1"),
        (" , ", "Enter whole numbers from 1"),
        ("0", "Enter whole numbers from 1"),
        ("-5", "Enter whole numbers from 1"),
        ("1.5", "Enter whole numbers from 1"),
        (str(10**17), "Enter whole numbers from 1"),
        ("٣", "Enter whole numbers from 1"),
        ("🙂", "Enter whole numbers from 1"),
        ("9" * 10_000, "at most 100 characters"),
        ("1, 2, 3, 4, 5, 6, 7, 8, 9", "9 combinations; at most 8"),
    ],
)
def test_nonsense_sizes_end_in_a_sentence(cast: Cast, as_user: AsUser, sizes: str, said: str) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-batch")
    answer = client.post(f"/versions/{version.pk}", {"targets": ["lpu"], "precision": ["int8"], "dim-batch": sizes})
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not CompileJob.objects.exists()


def test_a_form_without_choices_says_what_to_choose(cast: Cast, as_user: AsUser) -> None:
    client, version = as_user(cast.engineer), sample_of(cast, "digits-small")
    answer = client.post(f"/versions/{version.pk}", {})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "Choose at least one processor." in page
    assert "Choose at least one precision." in page
