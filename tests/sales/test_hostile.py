"""What no page and no operation may do with absurd values: fail, or take them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.ledger.models import Cap
from apps.notifications.models import Budget
from apps.reports.models import CostRate
from apps.sales.models import Commitment
from tests.cast import Cast
from tests.invoicing.tenancy import an_invoice_of
from tests.sales.market import Market
from tests.tiers import part

pytestmark = pytest.mark.django_db

NASTY = [
    "\x00",
    "\ud800",
    "a" * 5000,
    "-1",
    "1e9",
    "NaN",
    "0x10",
    "'; DROP TABLE x; --",
    "{{7*7}}",
    "<script>",
    "١٢٣",
    "",
]


EARLY = "0001-01-01T00:00:00Z"
ONE = {"program": "PROGRAM", "executions": 1}


@pytest.mark.parametrize("name", ["program", "plan", "volume", "klass", "pool", "start", "end", "pick", "previous"])
def test_no_value_of_a_control_breaks_the_builder(
    cast: Cast, market: Market, as_user: Callable[[User], Client], name: str
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    for value in part(NASTY):
        data = {"program": str(program.pk), "pool": "lpu-a", name: value.encode("utf-8", "replace").decode()}
        # The page holds the same price part: it is asked for once, the part for every value.
        for url in ("/quotes/new", "/quotes/new/preview")[value != NASTY[0] :]:
            response = client.get(url, data)
            assert response.status_code in ({400} if "\x00" in value else {200, 404}), (url, name, value)
            assert b"<script>&" not in response.content
        assert client.post("/quotes/new", data).status_code in {200, 302, 404, 409, 422}, (name, value)


def test_no_share_token_breaks_the_page(cast: Cast, market: Market) -> None:
    for token in ("%00", "a" * 300, "..%2f", "%F0%9F%92%A9"):
        assert Client().get(f"/shared/quotes/{token}").status_code == (400 if token == "%00" else 404)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/quotes", {"lines": [{"program": "x", "executions": 1}]}),
        ("/quotes", {"lines": [{"program": "7f0e0000-0000-4000-8000-000000000000", "executions": 2**70}]}),
        ("/quotes", {"lines": [], "pool": "\x00", "plan": "7f0e0000-0000-4000-8000-000000000000"}),
        ("/quotes", {"lines": [ONE], "pool": "\x00"}),
        ("/quotes", {"lines": [ONE], "pool": "lpu-a", "klass": "\x00"}),
        ("/quotes", {"lines": [ONE] * 30, "pool": "lpu-a"}),
        ("/quotes", {"lines": [{"program": "PROGRAM", "executions": 1, "expected": 2}], "pool": "lpu-a"}),
        ("/quotes", {"lines": [ONE], "pool": "lpu-a", "window": {"end": "9999-12-31T23:59:59Z"}}),
        ("/quotes", {"lines": [ONE], "pool": "lpu-a", "window": {"start": EARLY, "end": "0001-01-02T00:00:00Z"}}),
        ("/invoices", {"until": "0001-01-01T00:00:00Z"}),
        ("/invoices", {"until": "9999-12-31T23:59:59+14:00"}),
        ("/invoices", {"until": "0001-01-01T00:00:00+23:59"}),
        ("/quotes/preview", {"lines": [ONE], "pool": "lpu-a", "window": {"start": "9999-12-31T23:59:59-12:00"}}),
        ("/invoices", {"until": "yesterday"}),
        ("/quotes/preview", []),
    ],
)
def test_no_body_breaks_the_api(
    cast: Cast, market: Market, as_token: Callable[..., Client], path: str, body: Any
) -> None:
    program = market.program(cast.organisation, cast.engineer)
    client = as_token(cast.owner, cast.organisation, Scope.BUILD, Scope.BILLING)
    if isinstance(body, dict) and body.get("lines"):
        lines = [{**line, "program": line["program"].replace("PROGRAM", str(program.pk))} for line in body["lines"]]
        body = {**body, "lines": lines}
    response = client.post(f"/api/v1{path}", body, content_type="application/json")
    assert 400 <= response.status_code < 500, response.content
    assert response["Content-Type"] == "application/problem+json"


def test_an_administrator_cannot_record_nonsense(cast: Cast, as_token: Callable[..., Client]) -> None:
    invoice, client = an_invoice_of(cast, executions=10**6), as_token(cast.admin, None, Scope.ADMIN)
    for body in (
        {"amount": "1e3", "reference": "x"},
        {"amount": "5.63", "reference": "\x00"},
        {"amount": "٥", "reference": "x"},
    ):
        response = client.post(f"/api/v1/invoices/{invoice.pk}/paid", body, content_type="application/json")
        assert response.status_code == 422, body
    absurd = {"amount": "999999999999999", "reference": "x"}
    response = client.post(f"/api/v1/invoices/{invoice.pk}/paid", absurd, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (409, "overpaid")
    rate = {"processor_class": "lpu", "per_hour": "1", "effective_from": "2026-01-01T00:00:00Z"}
    for wrong in (
        {"note": "\ud800"},
        {"note": "\x00"},
        {"effective_from": "2026-01-01T00:00:00"},
        {"effective_from": "0001-01-01T00:00:00+23:59"},
    ):
        body = json.dumps({**rate, **wrong})
        assert client.post("/api/v1/cost-rates", body, content_type="application/json").status_code == 422, wrong
    start = timezone.now().isoformat()
    for naive in ("2027-01-01T00:00:00", "9999-12-31T23:59:59-12:00"):
        body = {"document": {}, "effective_from": naive}
        assert client.post("/api/v1/price-books", body, content_type="application/json").status_code == 422
    for document in ({}, {"format": "\x00"}, {"a": [1.5]}):
        body = {"document": document, "effective_from": start}
        assert client.post("/api/v1/price-books", body, content_type="application/json").status_code == 422


ABSURD = [
    "NaN",
    "-1",
    "1e400",
    "1e999999999",
    "9" * 41,
    "9" * 5000,
    "٣",
    "²",
    "\x00",
    "[]",
    "0.0000000000000000000000000000001",
]
FORMS = [  # a page, the field of money in its form, what else the form has
    ("/portal/caps", "amount", {"scope": "organisation"}),
    ("/portal/budgets", "amount", {"scope": "organisation"}),
    ("/commitments", "minimum", {"kind": "month"}),
    ("/costs", "per_hour", {"processor_class": "lpu", "effective_from": "2026-01-01T00:00"}),
]
BODIES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("put", "/spend-cap", "amount", {}),
    ("post", "/budgets", "amount", {}),
    ("post", "/commitments", "minimum", {"kind": "month"}),
    ("post", "/cost-rates", "per_hour", {"processor_class": "lpu", "effective_from": "2026-01-01T00:00:00Z"}),
]


def _money_rows() -> list[int]:
    return [model.objects.count() for model in (Cap, Budget, Commitment, CostRate)]


@pytest.mark.parametrize(("path", "name", "more"), FORMS, ids=str)
def test_no_absurd_amount_gets_through_a_form(
    cast: Cast, market: Market, as_user: Callable[[User], Client], path: str, name: str, more: dict[str, str]
) -> None:
    client = as_user(cast.admin if path == "/costs" else cast.owner)
    for value in ABSURD:
        answer = client.post(path, {**more, name: value})
        assert answer.status_code in {200, 400, 409, 422}, (path, value, answer.status_code)
        assert _money_rows() == [0] * 4, (path, value)


@pytest.mark.parametrize(("method", "path", "name", "more"), BODIES, ids=str)
def test_no_absurd_amount_gets_through_the_api(
    cast: Cast, market: Market, as_token: Callable[..., Client], method: str, path: str, name: str, more: dict[str, Any]
) -> None:
    admin = path == "/cost-rates"
    client = as_token(
        cast.admin if admin else cast.owner,
        None if admin else cast.organisation,
        *([Scope.ADMIN] if admin else [Scope.BILLING, Scope.BUY]),
    )
    for value in (*ABSURD, -1, 1.5, True, [], {}, float("nan"), 10**40):
        body = json.dumps({**more, name: value})
        answer = getattr(client, method)(f"/api/v1{path}", body, content_type="application/json")
        assert 400 <= answer.status_code < 500, (path, value, answer.content)
        assert answer["Content-Type"] == "application/problem+json"
        assert _money_rows() == [0] * 4, (path, value)
