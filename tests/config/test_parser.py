"""No character that the database cannot hold gets in through the API."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.roles import Scope
from tests.cast import Cast

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    "payload", [{"filename": "a\0b", "size": 1}, {"filename": "a", "size": 1, "extra": [{"\0": 1}]}]
)
def test_a_nul_in_a_body_is_refused_wherever_it_stands(
    cast: Cast, as_token: Callable[..., Client], payload: dict[str, object]
) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    response = client.post("/api/v1/uploads", json.dumps(payload), content_type="application/json")
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"
    assert "NUL" in response.json()["detail"]


def test_a_nul_in_a_query_is_refused(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ)
    assert client.get("/api/v1/members?cursor=%00").status_code == 422


def test_a_backslash_before_u0000_is_only_text(cast: Cast, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    body = json.dumps({"filename": "a\\u0000.onnx", "size": 1})
    response = client.post("/api/v1/uploads", body, content_type="application/json")
    assert "NUL" not in response.content.decode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("uploads", {"filename": "a.onnx", "size": True}),
        ("plans", {"version_id": NOBODY, "items": True}),
        ("plans", {"version_id": NOBODY, "items": 3, "dims": {"batch": False}}),
        ("plans", {"version_id": NOBODY, "items": 3, "budget": True}),
        ("quotes", {"lines": [{"program": NOBODY, "executions": True}]}),
        ("quotes", {"lines": [{"program": NOBODY, "executions": 5, "expected": False}]}),
        ("quotes", {"plan": NOBODY, "items": True}),
        ("compiles", {"version_id": NOBODY, "target": "lpu", "dims": {"batch": True}}),
        ("compiles", {"version_id": NOBODY, "target": "lpu", "dims": {"batch": [1, True]}}),
    ],
)
def test_a_truth_value_is_no_number(
    cast: Cast, as_token: Callable[..., Client], path: str, body: dict[str, object]
) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    response = client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")
    assert response.status_code == 422
    assert "number" in response.content.decode() or "decimal" in response.content.decode().lower()
