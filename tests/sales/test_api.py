from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import Organisation, User
from apps.accounts.roles import Scope
from apps.sales.models import Contract, Quote
from apps.timetable.models import Refusal
from tests.cast import Cast
from tests.sales.market import Market

pytestmark = pytest.mark.django_db
AsToken = Callable[..., Client]


def _post(client: Client, path: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"/api/v1{path}", body or {}, content_type="application/json", headers=headers)


@pytest.fixture
def client(cast: Cast, as_token: AsToken) -> Client:
    return as_token(cast.owner, cast.organisation, Scope.READ, Scope.BUILD, Scope.BUY)


def _body(market: Market, organisation: Organisation, user: User, **changes: Any) -> dict[str, Any]:
    program = market.program(organisation, user)
    return {"lines": [{"program": str(program.pk), "executions": 1_000_000}], "pool": "lpu-a", **changes}


def test_the_whole_way_from_price_to_contract(cast: Cast, market: Market, client: Client) -> None:
    body = _body(market, cast.organisation, cast.engineer, klass="batch")
    preview = _post(client, "/quotes/preview", body)
    assert (preview.status_code, preview.json()["document"]["net"]) == (200, "2.816")
    assert not Quote.objects.exists()
    quote = _post(client, "/quotes", body)
    assert (quote.status_code, quote.json()["net"], quote.json()["state"]) == (201, "2.816", "open")
    contract = _post(client, f"/quotes/{quote.json()['id']}/accept")
    assert contract.status_code == 201, contract.content
    assert contract.json()["lines"][0]["executions"] == 1_000_000
    assert client.get(f"/api/v1/quotes/{quote.json()['id']}").json()["contract"] == contract.json()["id"]
    ended = _post(client, f"/contracts/{contract.json()['id']}/end")
    assert ended.json()["state"] == "ended"
    assert len(client.get("/api/v1/contracts").json()["results"]) == 1


def test_a_repeated_request_makes_one_quote_and_one_contract(cast: Cast, market: Market, client: Client) -> None:
    body = _body(market, cast.organisation, cast.engineer)
    first, second = (_post(client, "/quotes", body, key="quote-1") for _ in range(2))
    assert first.json() == second.json()
    accept = f"/quotes/{first.json()['id']}/accept"
    contracts = {_post(client, accept, key="accept-1").json()["id"] for _ in range(2)}
    assert len(contracts) == Quote.objects.count() == Contract.objects.count() == 1
    refused = _post(client, accept)
    assert (refused.status_code, refused.json()["code"]) == (409, "quote-accepted")
    assert refused["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("key", ["", "accept-2"])
def test_a_refusal_for_want_of_capacity_is_remembered_whatever_is_undone(
    cast: Cast, market: Market, client: Client, key: str
) -> None:
    end = (timezone.now() + timedelta(hours=1.5)).isoformat()
    body = _body(market, cast.organisation, cast.engineer, window={"end": end})
    body["lines"][0]["executions"] = 3600 * 10_000  # an hour of 90,000 cycles each at 900 MHz
    first, second = (_post(client, "/quotes", body).json()["id"] for _ in range(2))
    assert _post(client, f"/quotes/{first}/accept").status_code == 201
    refused = _post(client, f"/quotes/{second}/accept", key=key)
    assert (refused.status_code, refused.json()["code"]) == (409, "capacity-taken")
    assert Refusal.objects.get().reason == refused.json()["detail"]


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"lines": []}, 422, "nothing-to-price"),
        ({"lines": [{"program": "7f0e0000-0000-4000-8000-000000000000", "executions": 1}]}, 404, "not-found"),
        ({"pool": "moon"}, 422, "pool-unknown"),
        ({"klass": "guaranteed"}, 422, "class-not-offered"),
        ({"window": {"end": "2020-01-01T00:00:00Z"}}, 422, "window"),
        ({"window": {"end": "2020-01-01T00:00:00"}}, 422, "request-invalid"),
        ({"plan": "7f0e0000-0000-4000-8000-000000000000"}, 404, "not-found"),
    ],
)
def test_refusals_are_problems(
    cast: Cast, market: Market, client: Client, changes: dict[str, Any], status: int, kind: str
) -> None:
    refused = _post(client, "/quotes", _body(market, cast.organisation, cast.engineer, **changes))
    assert (refused.status_code, refused.json()["code"]) == (status, kind), refused.content
    assert refused["Content-Type"] == "application/problem+json"


def test_a_strangers_program_cannot_be_quoted(cast: Cast, market: Market, client: Client) -> None:
    refused = _post(client, "/quotes", _body(market, cast.stranger_organisation, cast.stranger))
    assert refused.status_code == 404


def test_files_come_in_three_kinds(cast: Cast, market: Market, client: Client) -> None:
    quote = _post(client, "/quotes", _body(market, cast.organisation, cast.engineer)).json()
    kinds = {kind: client.get(f"/api/v1/quotes/{quote['id']}/file?kind={kind}") for kind in ("pdf", "csv", "json")}
    assert [response["Content-Type"].split(";")[0] for response in kinds.values()] == [
        "application/pdf",
        "text/csv",
        "application/json",
    ]
