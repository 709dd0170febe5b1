from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.ledger.services import cap_set
from apps.planner.models import Plan
from apps.registry.models import Project
from apps.registry.services import KEEPERS
from apps.sales.models import Quote
from apps.sales.plans import plan_lines_get
from apps.sales.selectors import version_keep_reason
from apps.sales.services import contract_end, quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import Market, seen

pytestmark = pytest.mark.django_db


def _cascade(cast: Cast, market: Market, *, chosen: bool = True) -> Plan:
    """A plan for 2,000 items: the small program on all of them, the large one expected on 300."""
    small, large = (market.program(cast.organisation, cast.engineer, operations=n) for n in (10**9, 10**12))
    choice = {
        "kind": "cascade",
        "pool": "lpu-a",
        "threshold": "0.83",
        "output": "probabilities",
        "programs": [str(small.pk), str(large.pk)],
        "lines": [
            {"program": str(small.pk), "executions": 2000, "expected": 2000},
            {"program": str(large.pk), "executions": 2000, "expected": 300},
        ],
    }
    return Plan.objects.create(
        organisation=cast.organisation,
        title="Digits",
        candidates=[],
        chosen=choice if chosen else None,
        basis={},
        requirements={"items": 2000, "klass": "batch"},
        created_by=cast.engineer,
        created_at=timezone.now(),
    )


def test_a_plan_is_quoted_for_its_items_and_for_others(cast: Cast, market: Market) -> None:
    plan = _cascade(cast, market)
    planned = plan_lines_get(organisation=cast.organisation, plan_id=plan.pk, items=None)
    assert [(line.executions, line.expected) for line in planned.lines] == [(2000, 2000), (2000, 300)]
    assert (planned.pool, planned.items, planned.klass) == (market.lpu, 2000, "batch")
    more = plan_lines_get(organisation=cast.organisation, plan_id=plan.pk, items=3333)
    assert [(line.executions, line.expected) for line in more.lines] == [(3333, 3333), (3333, 500)]


@pytest.mark.parametrize(("cap", "whose"), [("8", "organisation"), ("8", "project"), ("8.1", "")])
def test_a_cap_that_would_refuse_a_plan_is_said_before_its_quote_is_made(
    cast: Cast, market: Market, as_user: Callable[[User], Client], as_token: Callable[..., Client], cap: str, whose: str
) -> None:
    """In the words of the acceptance, which asks the same functions; the plan comes to 8.008."""
    plan, client = _cascade(cast, market), as_user(cast.owner)
    project = Project.objects.get(organisation=cast.organisation) if whose == "project" else None
    cap_set(
        organisation=cast.organisation,
        amount=Decimal(cap),
        currency="EUR",
        now=timezone.now(),
        project_id=project and project.pk,
    )
    page = client.get(f"/quotes/new?plan={plan.pk}").content.decode()
    said = (
        as_token(cast.owner, cast.organisation, Scope.BUILD)
        .post("/api/v1/quotes/preview", {"plan": str(plan.pk), "klass": "batch"}, content_type="application/json")
        .json()["refused"]
    )
    lines, now = plan_lines_get(organisation=cast.organisation, plan_id=plan.pk, items=None).lines, timezone.now()
    quote = quote_create(
        organisation=cast.organisation,
        lines=lines,
        klass="batch",
        pool=market.lpu,
        actor=None,
        plan_id=plan.pk,
        now=now,
    )
    if not whose:
        assert said == []
        assert "could not accept it now" not in page
        quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=now)
        return
    with pytest.raises(Problem) as refusal:
        quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=now)
    assert [(one["code"], one["detail"]) for one in said] == [("spend-cap", refusal.value.detail)]
    assert refusal.value.detail in unescape(page)


def test_the_builder_begins_where_the_plan_ended(cast: Cast, market: Market, as_user: Callable[[User], Client]) -> None:
    plan, client = _cascade(cast, market), as_user(cast.engineer)
    page = unescape(re.sub(r"<[^>]+>", " ", client.get(f"/quotes/new?plan={plan.pk}").content.decode()))
    assert "items" in page
    assert "€\u202f8.01" in page  # batch: half of 2,000 x (0.001 + 1) tera-operations at 0.008
    response = client.post(
        "/quotes/new", seen(client, {"plan": plan.pk, "volume": "4000", "pool": "lpu-a", "klass": "standard"})
    )
    quote = Quote.objects.get()
    assert response["Location"] == f"/quotes/{quote.pk}"
    assert quote.plan_id == plan.pk
    assert (quote.worst, quote.expected) == (Decimal("32.032"), Decimal("4.832"))
    contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=timezone.now())
    assert contract.plan_id == plan.pk


def test_a_plan_is_quoted_over_the_api(cast: Cast, market: Market, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.BUILD)
    body = {"plan": str(_cascade(cast, market).pk), "items": 100, "klass": "standard"}
    answer = client.post("/api/v1/quotes", body, content_type="application/json")
    assert (answer.status_code, answer.json()["net"], answer.json()["expected"]) == (201, "0.8008", "0.1208")


def test_a_plan_without_a_choice_or_of_another_organisation_is_refused(cast: Cast, market: Market) -> None:
    nothing = _cascade(cast, market, chosen=False)
    for organisation, plan_id, said in (
        (cast.organisation, nothing.pk, "No candidate of this plan is feasible"),
        (cast.stranger_organisation, nothing.pk, "no such plan"),
        (cast.organisation, uuid4(), "no such plan"),
    ):
        with pytest.raises(Problem, match=said):
            plan_lines_get(organisation=organisation, plan_id=plan_id, items=None)


def test_a_model_file_stays_while_a_contract_runs_on_it(cast: Cast, market: Market) -> None:
    program, now = market.program(cast.organisation, cast.engineer), timezone.now()
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(program, 10)],
        klass="standard",
        pool=market.lpu,
        window=(now, now + timedelta(hours=2)),
        actor=None,
        now=now,
    )
    assert version_keep_reason(program.model_version) is None
    contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=now)
    assert contract.reference in (version_keep_reason(program.model_version) or "")
    assert version_keep_reason in KEEPERS
    contract_end(contract_id=contract.pk, organisation=cast.organisation, actor=cast.owner, now=now)
    assert version_keep_reason(program.model_version) is None
