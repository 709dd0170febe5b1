"""Jobs have numbers and names that people can use."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction
from django.test import Client

from apps.accounts.counters import number_next
from apps.accounts.models import AuditEntry, NumberKind
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.dispatch.models import Job
from apps.dispatch.services import job_create, job_rename
from apps.dispatch.services.jobs import Seeded
from tests.dispatch.scene import Scene
from tests.dispatch.test_pages import SignIn, browser, present

__all__ = ["SignIn", "browser", "present"]


def submitted(scene: Scene, name: str = "") -> Job:
    contract = scene.contract((scene.program(), 50))
    return job_create(contract=contract, arrays=Seeded(3), actor=scene.cast.engineer, now=scene.now, name=name)


def test_jobs_are_counted_from_1_and_keep_their_names(present: Scene) -> None:
    assert [submitted(present, name).title for name in ("", "  Nightly batch ")] == ["J-0001", "J-0002 Nightly batch"]


def test_a_refused_job_uses_no_number(present: Scene) -> None:
    contract = present.contract((present.program(), 5))
    with pytest.raises(Problem):
        job_create(contract=contract, arrays=Seeded(6), actor=None, now=present.now)
    assert submitted(present).number == 1


def test_an_unusable_name_is_refused(present: Scene, browser: Client) -> None:
    with pytest.raises(Problem, match="at most 80 characters"):
        submitted(present, "x" * 81)
    job = submitted(present)
    page = browser.post(f"/jobs/{job.pk}/name", {"name": "a\u202eb"}, follow=True).content.decode()
    assert "without control characters" in page
    assert Job.objects.get(pk=job.pk).name == ""


def test_a_job_is_renamed_and_the_change_is_recorded(present: Scene, browser: Client) -> None:
    job = submitted(present, "One")
    browser.post(f"/jobs/{job.pk}/name", {"name": " Two "})
    assert Job.objects.get(pk=job.pk).title == "J-0001 Two"
    assert AuditEntry.objects.order_by("-id")[0].detail == {"from": "One", "to": "Two"}
    job_rename(job_id=job.pk, name="Two", actor=None, now=present.now)
    assert AuditEntry.objects.filter(action="job.rename").count() == 1, "the same name again is no change"


def test_pages_and_files_show_the_number_and_the_name(present: Scene, browser: Client) -> None:
    job = submitted(present, "Nightly <batch>")
    for path in ("/jobs", f"/jobs/{job.pk}"):
        page = browser.get(path).content.decode()
        assert "J-0001" in page, path
        assert "Nightly &lt;batch&gt;" in page, path
    present.run(job)
    assert 'filename="J-0001-outputs.npz"' in browser.get(f"/jobs/{job.pk}/outputs")["Content-Disposition"]


def test_the_api_numbers_and_names(present: Scene, as_token: Callable[..., Client]) -> None:
    client = as_token(present.cast.engineer, present.cast.organisation, Scope.RUN, Scope.READ)
    contract = present.contract((present.program(), 50))
    body = {"contract": str(contract.pk), "inputs": {"x": [[0.0] * 4]}, "name": "Nightly"}
    made = client.post("/api/v1/jobs", json.dumps(body), content_type="application/json").json()
    assert (made["number"], made["name"]) == ("J-0001", "Nightly")
    path = f"/api/v1/jobs/{made['id']}"
    changed = client.patch(path, json.dumps({"name": ""}), content_type="application/json").json()
    assert (changed["number"], changed["name"]) == ("J-0001", "")
    assert client.get("/api/v1/jobs").json()["results"][0]["number"] == "J-0001"


def test_json_with_nan_is_refused(present: Scene, as_token: Callable[..., Client]) -> None:
    client = as_token(present.cast.engineer, present.cast.organisation, Scope.RUN, Scope.READ)
    contract = present.contract((present.program(), 50))
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        body = f'{{"contract": "{contract.pk}", "inputs": {{"x": [[{number}, 0, 0, 0]]}}}}'
        answer = client.post("/api/v1/jobs", body, content_type="application/json")
        assert answer.status_code == 422, number
        assert "NaN or an infinite number" in answer.json()["detail"]
    assert not Job.objects.exists()


def test_older_jobs_are_numbered_in_the_order_of_their_submission(present: Scene) -> None:
    made = [submitted(present) for _ in range(3)]
    migration = importlib.import_module("apps.dispatch.migrations.0010_numbers")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(migration.FORGET)
        cursor.execute("UPDATE dispatch_job SET number = 100 - number")
        cursor.execute(migration.NUMBERS)
    assert list(Job.objects.order_by("submitted_at", "id").values_list("number", flat=True)) == [1, 2, 3]
    assert {job.pk for job in Job.objects.all()} == {job.pk for job in made}
    assert number_next(organisation_id=present.cast.organisation.pk, kind=NumberKind.JOB) == 4


@pytest.mark.django_db(transaction=True)
def test_a_job_waits_for_a_number_only_at_its_end(present: Scene) -> None:
    """While another transaction holds the counter, a submission goes on until its number, and then gets the next one."""
    contract = present.contract((present.program(), 50))
    made: list[Job] = []

    def submit() -> None:
        made.append(job_create(contract=contract, arrays=Seeded(3), actor=None, now=present.now))
        connection.close()

    with transaction.atomic():
        assert number_next(organisation_id=present.cast.organisation.pk, kind=NumberKind.JOB) == 1
        thread = threading.Thread(target=submit)
        thread.start()
        thread.join(0.5)
        assert not made
    thread.join()
    assert [job.number for job in made] == [2]
