"""Error pages: they need nothing that may have failed, say what to do, and name the id that finds the fault in the log."""

from __future__ import annotations

import io
import json
import logging

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client, RequestFactory
from pytest_django import Settings as SettingsWrapper

from apps.config import failures, health
from tests.cast import Cast


def broken(*args: object, **kwargs: object) -> HttpResponse:
    raise RuntimeError("a defect")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """A browser whose page /docs has a defect."""
    monkeypatch.setattr("apps.pages.views.papers.sections", broken)
    return Client(raise_request_exception=False)


@pytest.mark.django_db
def test_a_defect_is_a_page_whose_request_id_is_in_header_and_log(
    client: Client,
) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(
        next(one.formatter for one in logging.getLogger().handlers if type(one) is logging.StreamHandler)
    )
    logging.getLogger("django.request").addHandler(handler)
    try:
        answer = client.get("/docs")
    finally:
        logging.getLogger("django.request").removeHandler(handler)
    request_id = answer["X-Request-ID"]
    assert answer.status_code == 500
    assert request_id in answer.content.decode()
    assert "Something went wrong on our side" in answer.content.decode()
    assert f"request_id={request_id}" in written.getvalue()
    assert "a defect" in written.getvalue()


def test_the_page_of_a_defect_asks_no_database(rf: RequestFactory) -> None:
    """Without the mark django_db any query would fail."""
    request = rf.get("/models?q=a")
    request.request_id = "abc123"  # type: ignore[attr-defined]
    page = failures.failure(request).content.decode()
    assert 'href="/models?q=a"' in page
    assert "abc123" in page
    assert page.count("<main") == page.count("<h1") == 1


def test_a_defect_within_the_page_of_a_defect_still_says_what_to_do(
    rf: RequestFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "render_to_string", broken)
    answer = failures.failure(rf.get("/"))
    assert answer.status_code == 500
    assert "Something went wrong on our side" in answer.content.decode()


@pytest.mark.django_db
def test_a_defect_of_the_api_is_a_problem_with_the_same_id(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(cast.owner, backend="django.contrib.auth.backends.ModelBackend")
    monkeypatch.setattr("apps.accounts.api.principal_get", broken)
    answer = client.get("/api/v1/me")
    body = json.loads(answer.content)
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/problem+json")
    assert answer["X-Request-ID"] in body["detail"]
    assert body["code"] == "internal-error"


def test_an_outage_is_a_page_in_the_same_look_with_the_time_to_wait(rf: RequestFactory) -> None:
    try:
        raise OperationalError("gone")
    except OperationalError:
        answer = failures.failure(rf.get("/"))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "error-page" in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "status"), [("/nothing-here", 404), ("/problems/nothing", 404)])
def test_a_missing_page_has_the_same_look(path: str, status: int) -> None:
    answer = Client().get(path)
    assert answer.status_code == status
    assert 'class="error-page"' in answer.content.decode()


@pytest.mark.django_db
def test_an_expired_form_says_what_to_do() -> None:
    answer = Client(enforce_csrf_checks=True).post("/sign-in", {"login": "a@example.com"})
    assert answer.status_code == 403
    assert "This form has expired" in answer.content.decode()


@pytest.mark.django_db
def test_an_unreadable_request_is_a_page(settings: SettingsWrapper) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 2
    answer = Client().post("/sign-in", {"a": 1, "b": 2, "c": 3})
    assert answer.status_code == 400
    assert "read this request" in answer.content.decode()


def test_probes_keep_their_own_answers(rf: RequestFactory) -> None:
    assert health.healthz(rf.get("/healthz")).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/models?q=a%00b", "/docs/a%00b", "/models?project=%00"])
def test_an_address_with_a_nul_is_refused_by_a_page(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 400
    assert "read this request" in answer.content.decode()
