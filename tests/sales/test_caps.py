"""Caps of a project and of an API token bind where a contract is accepted, and each only its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from apps.ledger.models import Hold
from apps.ledger.services import HOLD_GRACE, CapReached, cap_set
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.registry.models import Project
from apps.sales.models import Contract, Quote
from apps.sales.plans import plan_lines_get
from apps.sales.services import (
    Quota,
    contract_executions_return,
    contract_executions_take,
    plan_refusals,
    quote_accept,
    quote_create,
)
from tests.cast import Cast
from tests.sales.market import NOW, Market
from tests.sales.test_forms import run

pytestmark = pytest.mark.django_db


@pytest.fixture
def quotes(cast: Cast, market: Market) -> tuple[Quote, Quote]:
    """Two offers over programs of the one project `Default`."""
    first, second = (
        quote_create(
            organisation=cast.organisation,
            lines=[(market.program(cast.organisation, cast.engineer), 1000)],
            klass="standard",
            pool=market.lpu,
            window=(NOW, NOW + timedelta(days=7)),
            actor=cast.engineer,
            now=NOW,
        )
        for _ in range(2)
    )
    return first, second


def accept(cast: Cast, quote: Quote, token_id: UUID | None = None) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW, token_id=token_id)


def test_the_cap_of_a_project_is_not_exceeded(cast: Cast, quotes: tuple[Quote, Quote]) -> None:
    project = Project.objects.get(organisation=cast.organisation)
    cap = quotes[0].worst * 3 / 2
    cap_set(organisation=cast.organisation, amount=cap, currency="EUR", now=NOW, project_id=project.pk)
    contract = accept(cast, quotes[0])
    hold = Hold.objects.get(contract_id=contract.pk)
    assert list(hold.shares.values_list("project_id", "amount")) == [(project.pk, hold.amount)]
    assert hold.expires_at == contract.ends_at + HOLD_GRACE
    with pytest.raises(CapReached) as refusal:
        accept(cast, quotes[1])
    assert refusal.value.errors[0]["scope"] == "project"
    assert Contract.objects.count() == 1


def test_the_cap_of_a_token_binds_that_token_alone(cast: Cast, quotes: tuple[Quote, Quote]) -> None:
    token, _ = token_create(user=cast.owner, organisation=cast.organisation, name="build", scopes=[Scope.BUY], now=NOW)
    cap_set(organisation=cast.organisation, amount=quotes[0].worst * 3 / 2, currency="EUR", now=NOW, token_id=token.pk)
    accept(cast, quotes[0], token.pk)
    with pytest.raises(CapReached) as refusal:
        accept(cast, quotes[1], token.pk)
    assert refusal.value.errors[0]["scope"] == "token"
    accept(cast, quotes[1])
    assert Contract.objects.count() == 2


def test_the_cap_of_a_project_sees_what_its_jobs_draw_from_a_quota(cast: Cast, market: Market) -> None:
    """Promised, then used, then beside another contract: the three together never pass the cap."""
    program = market.program(cast.organisation, cast.engineer, operations=10**12)
    quota = quote_create(
        organisation=cast.organisation,
        lines=Quota("float32", 100),
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=NOW,
    )
    contract = accept(cast, quota)
    project = Project.objects.get(organisation=cast.organisation)
    cap_set(organisation=cast.organisation, amount=Decimal("0.4"), currency="EUR", now=NOW, project_id=project.pk)
    take = partial(contract_executions_take, contract_id=contract.id, program_digest=program.digest, now=NOW)
    take(count=40)  # 0.32
    with pytest.raises(CapReached) as refusal:
        take(count=11)
    assert refusal.value.errors == [{"scope": "project", "cap": "0.4", "left": "0.08", "currency": "EUR"}]
    other = quote_create(
        organisation=cast.organisation, lines=[(program, 11)], klass="standard", pool=market.lpu, actor=None, now=NOW
    )
    with pytest.raises(CapReached):
        accept(cast, other)
    contract_executions_return(contract_id=contract.id, program_digest=program.digest, count=40, now=NOW)
    run(contract, program, 30)
    take(count=20)
    with pytest.raises(CapReached):
        take(count=1)
    cap_set(organisation=cast.organisation, amount=None, currency="EUR", now=NOW, project_id=project.pk)
    take(count=50)


def test_a_plan_says_before_its_quote_what_would_refuse_it(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    """On its page and over the API, there with the cap of the token that asks; acceptance says the same."""
    program, now = market.program(cast.organisation, cast.engineer), timezone.now()
    plan = plan_create(subject=program.model_version, requirements=Requirements(10**9), actor=cast.engineer, now=now)
    assert plan.chosen is not None
    page = f"/plans/{plan.pk}"
    assert "could not be accepted now" not in as_user(cast.engineer).get(page).content.decode()
    token, secret = token_create(
        organisation=cast.organisation, user=cast.engineer, name="ci", scopes=[Scope.READ], now=now
    )
    cap_set(
        organisation=cast.organisation,
        amount=Decimal(plan.chosen["price"]) / 2,
        currency="EUR",
        now=now,
        token_id=token.pk,
    )
    assert "could not be accepted now" not in as_user(cast.engineer).get(page).content.decode()
    client = Client(headers={"authorization": f"Bearer {secret}"})
    told = client.get(f"/api/v1{page}/refusals").json()
    assert [one["code"] for one in told] == ["spend-cap"]
    cap_set(organisation=cast.organisation, amount=Decimal(plan.chosen["price"]) / 2, currency="EUR", now=now)
    shown = as_user(cast.engineer).get(page).content.decode()
    assert "This plan's quote could not be accepted now" in shown
    planned = plan_lines_get(organisation=cast.organisation, plan_id=plan.pk, items=None)
    quote = quote_create(
        organisation=cast.organisation,
        lines=planned.lines,
        klass="standard",
        pool=planned.pool,
        window=None,
        plan_id=plan.pk,
        actor=cast.engineer,
        now=now,
    )
    with pytest.raises(CapReached) as refused:
        quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.engineer, now=now)
    (said,) = plan_refusals(plan=plan, actor=cast.engineer, now=now)
    assert said.detail == refused.value.detail
