"""Every refusal of the API is a problem document, whoever made it, and every code has a page."""

from __future__ import annotations

import ast
import html
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import Settings as SettingsWrapper

from apps.accounts.problems import STANDARD
from apps.accounts.roles import Scope
from apps.config.api import api
from apps.config.reference.operations import operations
from apps.pages.problem_types import problem_types
from tests.cast import Cast

FORM = "multipart/form-data"


@pytest.fixture
def client(cast: Cast, as_token: Callable[..., Client]) -> Client:
    return as_token(cast.engineer, cast.organisation, Scope.READ, Scope.BUILD, Scope.RUN)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing-here", 404, "not-found"),
        ("GET", "/api/v1/jobs/not-a-uuid", 404, "not-found"),
        ("GET", "/api/v2/me", 404, "not-found"),
        ("DELETE", "/api/v1/me", 405, "method-not-allowed"),
        ("TRACE", "/api/v1/jobs", 405, "method-not-allowed"),
    ],
)
def test_what_no_operation_answers_is_a_problem(client: Client, method: str, path: str, status: int, code: str) -> None:
    response = client.generic(method, path)
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    body = json.loads(response.content)
    assert (body["code"], body["status"]) == (code, status)
    assert body["type"].endswith(f"/problems/{code}")


@pytest.mark.django_db
def test_a_wrong_method_still_says_which_are_right(client: Client) -> None:
    assert client.delete("/api/v1/me")["Allow"] == "GET"


@pytest.mark.django_db
def test_a_host_that_is_not_ours_is_a_problem_too(client: Client) -> None:
    response = client.get("/api/v1/me", headers={"host": "elsewhere.example"})
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [FORM, f"{FORM}; boundary=", f"{FORM}; boundary={'x' * 300}", f"{FORM}; boundary=a"])
def test_a_form_that_cannot_be_read_is_400_or_422_and_never_500(client: Client, kind: str) -> None:
    for headers in ({}, {"idempotency-key": "k"}):
        response = client.generic("POST", "/api/v1/jobs/npz", b"--a\r\nbroken", content_type=kind, headers=headers)
        assert response.status_code in {400, 422}, response.content
        assert response["Content-Type"] == "application/problem+json"


@pytest.mark.django_db
def test_a_body_beyond_the_limit_is_413(client: Client, settings: SettingsWrapper) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    response = client.generic("POST", "/api/v1/samples", b'{"slug": "' + b"x" * 200 + b'"}', "application/json")
    assert (response.status_code, json.loads(response.content)["code"]) == (413, "request-too-large")


def raised_codes() -> dict[str, str]:
    """Every code that the code of apps/ names, with the file that names it."""
    found: dict[str, str] = {}
    for path in sorted((Path(settings.BASE_DIR) / "apps").rglob("*.py")):
        tree = ast.parse(path.read_text())
        words = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not _makes_problem(node.func):
                continue
            for given in node.keywords:
                value = given.value
                if given.arg == "kind" and isinstance(value, ast.Constant):
                    found[value.value] = path.name
                elif given.arg == "kind" and isinstance(value, ast.Name) and value.id in words:
                    found[words[value.id]] = path.name
    return found | {code: "problems.py" for code, _, _ in STANDARD.values()}


def _makes_problem(called: ast.expr) -> bool:
    """`Problem(...)`, or `super().__init__(...)` in one of its subclasses."""
    return (isinstance(called, ast.Name) and called.id.endswith("Problem")) or (
        isinstance(called, ast.Attribute) and called.attr == "__init__"
    )


def test_the_guide_explains_exactly_the_codes_that_are_raised() -> None:
    raised, explained = raised_codes(), set(problem_types())
    assert len(raised) > 120
    assert {code: file for code, file in raised.items() if code not in explained} == {}, (
        "add them to docs/reference/problems.md"
    )
    assert explained - set(raised) == set(), "remove them from docs/reference/problems.md"


@pytest.mark.django_db
def test_the_type_of_a_problem_is_the_address_of_its_page(client: Client) -> None:
    problem = client.get(f"/api/v1/jobs/{'0' * 8}-0000-4000-8000-{'0' * 12}").json()
    page = Client().get(problem["type"].removeprefix(settings.SITE_URL))
    assert page.status_code == 200
    assert problem["code"] in page.content.decode()
    assert Client().get("/problems/no-such-code").status_code == 404


@pytest.mark.django_db
def test_the_reference_has_every_operation_with_examples_that_can_be_pasted() -> None:
    page = html.unescape(Client().get("/api/v1/docs").content.decode())
    document = json.loads(json.dumps(api.get_openapi_schema(), default=str))
    rows = [one for group in operations(document, site="http://takt", needs={}).values() for one in group]
    assert {(one.method.lower(), one.path) for one in rows} == {
        (method, path) for path, methods in document["paths"].items() for method in methods
    }
    for one in rows:
        assert one.python in page
        compile(one.python, one.anchor, "exec")
        assert shlex.split(one.curl.replace("\\\n", ""))[0] == "curl"
        assert one.summary, f"give {one.method} {one.path} a summary"
        assert "{" not in one.curl.split()[1 if one.method == "GET" else 3]
    assert len({one.anchor for one in rows}) == len(rows)
    assert "Needs: scope buy; role" in page
    customers, administrators = page.split('id="for-administrators"')
    assert "Needs: scope admin" not in customers
    assert administrators.count("Needs: ") == administrators.count("Needs: scope admin") > 20


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/usage/focus?start=0", "/usage/focus?end=1700000000", "/usage/summary?first=20261101"]
)
def test_a_bare_number_is_no_day(cast: Cast, as_token: Callable[..., Client], path: str) -> None:
    response = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BILLING).get(f"/api/v1{path}")
    assert (response.status_code, response.json()["code"]) == (422, "request-invalid")
    assert "2026-11-30" in response.json()["detail"]
