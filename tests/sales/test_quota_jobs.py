"""A quota over the API and in the browser: bought, drawn by jobs of two programs, given back, looked at, invoiced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.dispatch import services
from apps.dispatch.selectors import offers_open
from apps.invoicing.services import invoice_issue
from apps.sales.models import Contract, ContractQuota
from apps.sales.selectors import contract_usage
from apps.sales.services import Quota, contract_close, quote_accept, quote_create
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import Market

pytestmark = pytest.mark.django_db


def _bought(scene: Scene, tera_operations: int = 20) -> Contract:
    quote = quote_create(
        organisation=scene.cast.organisation,
        lines=Quota("float32", tera_operations),
        klass="standard",
        pool=scene.market.lpu,
        window=(scene.now, scene.now + timedelta(days=1)),
        actor=None,
        now=scene.now,
    )
    return quote_accept(quote_id=quote.pk, organisation=scene.cast.organisation, actor=scene.cast.owner, now=scene.now)


def test_jobs_of_any_program_draw_from_a_quota_and_give_back_what_they_did_not_use(cast: Cast, market: Market) -> None:
    scene = Scene(market, cast)
    small, large = scene.program(operations=10**11, name="small"), scene.program(operations=10**12, name="large")
    scene.program(operations=10**12, target="lpu2", name="elsewhere")
    contract = _bought(scene)
    offers = offers_open(cast.organisation, now=scene.now)
    assert [(offer.title, offer.left) for offer in offers] == [("large", 20), ("small", 200)]
    arrays = {"x": np.zeros((5, 1, 4), "float32")}
    done = services.job_create(contract=contract, arrays=arrays, actor=None, now=scene.now, wanted=large.pk)
    cancelled = services.job_create(contract=contract, arrays=arrays, actor=None, now=scene.now, wanted=small.pk)
    quota = ContractQuota.objects.get()
    assert quota.left == 20 * 10**12 - 5 * 10**12 - 5 * 10**11
    services.job_cancel(job_id=cancelled.pk, actor=None, now=scene.now)
    scene.run(done)
    quota.refresh_from_db()
    assert quota.left == 15 * 10**12
    assert contract_usage(contract).actual == Decimal("0.04")
    with pytest.raises(Problem, match="does not include this program"):
        services.job_create(contract=contract, arrays=arrays, actor=None, now=scene.now, wanted=uuid4())
    contract_close(contract_id=contract.pk, now=contract.ends_at)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=contract.ends_at + timedelta(seconds=1))
    (line,) = invoice.document["lines"]
    assert (line["program"]["digest"], line["executions"], line["amount"]) == (large.digest, 5, "0.04")


def test_a_quota_is_bought_over_the_api_and_shown_everywhere(
    cast: Cast, market: Market, as_token: Callable[..., Client], as_user: Callable[[User], Client]
) -> None:
    scene = Scene(market, cast, now=timezone.now())
    program = scene.program(operations=10**12)
    client = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BUILD, Scope.BUY, Scope.RUN)
    body = {"quota": {"precision": "float32", "tera_operations": 100}, "pool": "lpu-a"}
    quote = client.post("/api/v1/quotes", body, content_type="application/json").json()
    assert (quote["form"], quote["net"]) == ("quota", "0.8")
    contract = client.post(f"/api/v1/quotes/{quote['id']}/accept", {}, content_type="application/json").json()
    inputs = {"contract": contract["id"], "program": str(program.pk), "inputs": {"x": np.zeros((2, 1, 4)).tolist()}}
    job = client.post("/api/v1/jobs", inputs, content_type="application/json")
    assert job.status_code == 201, job.content
    line = client.get(f"/api/v1/contracts/{contract['id']}").json()["lines"][0]
    assert (line["unit"], line["program"], line["taken"]) == ("operations", None, 2 * 10**12)
    browser = as_user(cast.owner)
    for url in (
        "/quotes",
        f"/quotes/{quote['id']}",
        "/contracts",
        f"/contracts/{contract['id']}",
        "/jobs/new",
        "/portal",
    ):
        page = browser.get(url)
        assert page.status_code == 200, url
    assert "Quota: any float32 program" in browser.get(f"/contracts/{contract['id']}").content.decode()
    for kind in ("pdf", "csv", "json"):
        assert browser.get(f"/quotes/{quote['id']}/quote.{kind}").status_code == 200
    shared = client.post(f"/api/v1/quotes/{quote['id']}/share", {}, content_type="application/json").json()
    assert Client().get(shared["share_url"]).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"quota": {"precision": "\x00", "tera_operations": 1}},
        {"quota": {"precision": "float32", "tera_operations": 2**70}},
        {"quota": {"precision": "float32", "tera_operations": -1}},
        {"quota": []},
        {"form": {"name": "interval", "every": "1/0"}},
        {"form": {"name": "interval", "every": "\u0661"}},
        {"form": {"name": "interval", "every": "0"}},
        {"form": {"name": "spread", "every": "999999999"}},
        {"form": {"name": "spread"}},
        {"form": {"name": "interval", "every": "0.000000000001"}},
    ],
)
def test_no_form_breaks_the_api(
    cast: Cast, market: Market, as_token: Callable[..., Client], body: dict[str, object]
) -> None:
    program = market.program(cast.organisation, cast.engineer)
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    whole = {"lines": [{"program": str(program.pk), "executions": 10**12}], "pool": "lpu-a", **body}
    for path in ("/api/v1/quotes", "/api/v1/quotes/preview"):
        answer = client.post(path, whole, content_type="application/json")
        assert answer.status_code == 422, answer.content
        assert answer["Content-Type"] == "application/problem+json"
