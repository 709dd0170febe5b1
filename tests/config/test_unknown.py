"""The API refuses what it does not understand: a mistyped name never makes a request do something else than was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from django.test import Client
from ninja.main import NinjaAPI

from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.config.api import api
from apps.pricing.amounts import AMOUNT_SENTENCE
from apps.registry.services.evaluations import _parse
from tests.cast import Cast
from tests.openapi import DOCUMENT

NOBODY = "00000000-0000-4000-8000-000000000000"
# A document with a format and a reader of its own, which the guide describes.
FREE = {"/api/v1/versions/{pk}/evaluation"}
BODIES = [
    (f"{method.upper()} {path}", schema["schema"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    for schema in operation.get("requestBody", {}).get("content", {}).values()
    if path not in FREE
]


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object with named fields in a schema, references followed."""
    if isinstance(schema, list):
        for one in schema:
            yield from _objects(one)
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _objects(DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    if "properties" in schema:
        yield schema
    for name, one in schema.items():
        yield from _objects(list(one.values()) if name == "properties" else one)


@pytest.mark.parametrize(("name", "schema"), BODIES, ids=[name for name, _ in BODIES])
def test_no_body_takes_names_that_it_does_not_know(name: str, schema: dict[str, Any]) -> None:
    found = list(_objects(schema))
    assert found, "a body without named fields belongs to FREE, with its reason"
    assert all(one.get("additionalProperties") is False for one in found)


def test_the_api_has_bodies_in_json_and_as_a_form() -> None:
    assert isinstance(api, NinjaAPI)
    assert len(BODIES) > 20
    assert any(name == "POST /api/v1/jobs/npz" for name, _ in BODIES)


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("quotes", {"lines": [], "class": "batch"}, "unknown field class; did you mean klass?"),
        (
            "quotes",
            {"lines": [{"program": NOBODY, "execution": 5}]},
            "unknown field execution; did you mean executions?",
        ),
        ("quotes", {"window": {"begin": None}, "lines": []}, "unknown field begin; known: end, start"),
        (
            "jobs",
            {"contract": NOBODY, "inputs": {}, "programme": NOBODY},
            "unknown field programme; did you mean program?",
        ),
        ("uploads", {"filename": "a.onnx", "size": 1, "": 1}, "unknown field "),
        ("uploads", {"filename": "a.onnx", "size": 1, "x" * 500: 1}, f"unknown field {'x' * 60}; known: "),
    ],
)
def test_an_unknown_field_is_refused_and_the_nearest_known_one_is_said(
    cast: Cast, as_token: Callable[..., Client], path: str, body: dict[str, Any], said: str
) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD, Scope.RUN)
    response = client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")
    assert response.status_code == 422, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert said in response.json()["detail"]
    assert said in response.json()["errors"][0]["message"]
    assert len(response.content) < 2000


def test_every_unknown_field_is_named_with_where_it_stands(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    body = {"lines": [], "quota": {"precisions": "int8", "tera": 1}}
    errors = client.post("/api/v1/quotes", json.dumps(body), content_type="application/json").json()["errors"]
    assert [one["field"] for one in errors] == ["quota.precisions", "quota.tera"]


def test_an_amount_that_is_none_is_refused_in_words(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BILLING)
    for amount in ("-5", "NaN", "", "1e3"):
        answer = client.put("/api/v1/spend-cap", json.dumps({"amount": amount}), content_type="application/json")
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"field": "amount", "message": AMOUNT_SENTENCE}]


def test_a_pool_that_is_not_named_is_asked_for(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    body = {"quota": {"precision": "float32", "tera_operations": 1}}
    answer = client.post("/api/v1/quotes", json.dumps(body), content_type="application/json")
    assert answer.json()["detail"].startswith("Name a pool: one of")


def test_an_unknown_parameter_of_a_query_is_refused(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ)
    assert client.get("/api/v1/contracts?state=active").status_code == 200
    refused = client.get("/api/v1/contracts?stat=active")
    assert (refused.status_code, refused["Content-Type"]) == (422, "application/problem+json")
    assert refused.json()["detail"] == "unknown parameter stat; did you mean state?"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "ledger"),
        ("get", "spend-caps"),
        ("get", f"versions/{NOBODY}"),
        ("post", "quotes"),
        ("delete", f"versions/{NOBODY}"),
    ],
)
def test_an_operation_without_parameters_takes_none(
    cast: Cast, as_token: Callable[..., Client], method: str, path: str
) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BUILD)
    ask = getattr(client, method)
    assert ask(f"/api/v1/{path}").status_code in (200, 400, 404)
    refused = ask(
        f"/api/v1/{path}?limit=5", **({"data": "{}", "content_type": "application/json"} if method == "post" else {})
    )
    assert (refused.status_code, refused["Content-Type"]) == (422, "application/problem+json")
    assert refused.json()["detail"] == "unknown parameter limit; none are accepted"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modell_sha256": "x"}, "unknown field modell_sha256; did you mean model_sha256?"),
        ({"splits": {"chose": {}}}, "unknown field chose; did you mean choose?"),
        ({"splits": {"choose": {"lables": []}}}, "unknown field lables; did you mean labels?"),
    ],
)
def test_an_evaluation_with_an_unknown_field_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem) as refusal:
        _parse(change)
    assert refusal.value.status == 422
    assert said in [one["message"] for one in refusal.value.errors]


def test_an_unknown_field_or_file_of_a_form_is_refused(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.RUN)

    def file() -> BytesIO:
        data = BytesIO()
        np.save(data, np.zeros(1, np.float32))
        data.seek(0)
        data.name = "x.npy"
        return data

    field = client.post("/api/v1/jobs/npz", {"contract": NOBODY, "programm": NOBODY, "inputs": file()})
    assert (field.status_code, field.json()["detail"]) == (422, "unknown field programm; did you mean program?")
    extra = client.post("/api/v1/jobs/npz", {"contract": NOBODY, "inputs": file(), "input": file()})
    assert (extra.status_code, extra.json()["detail"]) == (422, "unknown file input; did you mean inputs?")


def test_a_contract_that_is_not_the_callers_is_not_found(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.RUN)
    body = json.dumps({"contract": NOBODY, "inputs": {"x": [1]}})
    refused = client.post("/api/v1/jobs", body, content_type="application/json")
    assert (refused.status_code, refused["Content-Type"]) == (404, "application/problem+json")
    assert NOBODY in refused.json()["detail"]
