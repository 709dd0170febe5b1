"""Planning again what a contract has left: a difference, and nothing applied by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import quote_plus

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.planner.models import Plan
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.sales.models import Contract, ContractState, Quote
from apps.sales.plans import plan_lines_get
from apps.sales.revising import contract_plan_again, difference_of
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import CLOCK, Market

pytestmark = pytest.mark.django_db


def bought(cast: Cast, market: Market, *, items: int = 20) -> Contract:
    """A contract by a plan, with items of a second each."""
    now = timezone.now()
    program = market.program(cast.organisation, cast.engineer, interval=CLOCK, latency=CLOCK)
    plan = plan_create(subject=program.model_version, requirements=Requirements(items), actor=cast.engineer, now=now)
    planned = plan_lines_get(organisation=cast.organisation, plan_id=plan.pk, items=None)
    quote = quote_create(
        organisation=cast.organisation,
        lines=planned.lines,
        klass="standard",
        pool=planned.pool,
        plan_id=plan.pk,
        window=(now, now + timedelta(days=1)),
        actor=None,
        now=now,
    )
    return quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=now)


def test_the_rest_is_planned_and_the_difference_is_shown_without_a_change(cast: Cast, market: Market) -> None:
    contract = bought(cast, market)
    plan = contract_plan_again(contract=contract, actor=cast.engineer, now=timezone.now())
    assert plan.requirements["items"] == 20
    rows = {row.name: row for row in difference_of(contract, plan)}
    assert rows["price"].before == rows["price"].after
    assert not rows["pool"].differs
    before, after = (datetime.fromisoformat(text) for text in (rows["completion"].before, rows["completion"].after))
    assert after - before < timedelta(seconds=20), "its own 20 seconds are free while it is planned"
    contract.refresh_from_db()
    assert contract.state == ContractState.ACTIVE
    assert Quote.objects.count() == 1


def test_a_contract_that_fills_its_pool_is_planned_again_where_it_is_and_others_are_not(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    """Its day is full but for seven minutes: nobody else fits until its end."""
    contract = bought(cast, market, items=86_000)
    now = timezone.now()
    again = contract_plan_again(contract=contract, actor=cast.engineer, now=now)
    assert again.chosen is not None
    assert (again.chosen["pool"], again.chosen["feasible"]) == ("lpu-a", True)
    other = plan_create(
        subject=again.model_version,
        requirements=Requirements(7200),
        until=contract.ends_at,
        actor=cast.engineer,
        now=now,
    )
    assert [row["feasible"] for row in other.candidates if row["pool"] == "lpu-a"] == [False]
    address = f"plan={again.pk}&amends={contract.pk}&volume=86000&klass=standard&end={quote_plus(contract.ends_at.isoformat())}"
    page = as_user(cast.engineer).get(f"/quotes/new?{address}")
    assert page.context["refusal"] is None
    as_user(cast.engineer).post("/quotes/new", dict(page.context["make"]))
    quote = Quote.objects.get(amends=contract)
    renewed = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=timezone.now())
    assert renewed.pool_id == contract.pool_id


def test_a_contract_without_a_plan_or_that_is_over_is_refused(cast: Cast, market: Market) -> None:
    contract = bought(cast, market)
    with pytest.raises(Problem, match="has ended"):
        contract_plan_again(contract=contract, actor=cast.engineer, now=contract.ends_at)
    contract.plan_id = None
    with pytest.raises(Problem, match="has no plan"):
        contract_plan_again(contract=contract, actor=cast.engineer, now=timezone.now())


def test_the_page_leads_into_the_amendment_and_its_owner_applies_it(
    cast: Cast, market: Market, as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    contract, client = bought(cast, market), as_user(cast.engineer)
    made = client.post(f"/contracts/{contract.pk}/plan")
    plan = Plan.objects.get(basis__revises=str(contract.pk))
    assert made["Location"] == f"/plans/{plan.pk}"
    shown = client.get(made["Location"]).content.decode()
    assert "Difference from the contract" in shown
    address = shown.split('href="/quotes/new?')[1].split('"')[0].replace("&amp;", "&")
    page = client.get(f"/quotes/new?{address}")
    assert page.context["refusal"] is None
    client.post("/quotes/new", dict(page.context["make"]))
    quote = Quote.objects.get(amends=contract)
    assert quote.plan_id == plan.pk
    renewed = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=timezone.now())
    contract.refresh_from_db()
    assert (contract.state, renewed.plan_id) == (ContractState.ENDED, plan.pk)
    api = as_token(cast.owner, cast.organisation, Scope.BUILD)
    again = api.post(f"/api/v1/contracts/{renewed.pk}/plan")
    assert (again.status_code, again.json()["items"], again.json()["is_feasible"]) == (201, 20, True)
