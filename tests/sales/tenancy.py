"""Who may open the addresses of the sales room."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from apps.accounts.roles import BUYING, ENGINEERING, MONEY, Scope
from apps.planner.models import Plan
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.sales.models import Contract, Quote, StandingRequest
from apps.sales.services import commitment_enter, plan_hold, quote_accept, quote_create, quote_share, standing_file
from tests.cast import Cast
from tests.sales.market import open_market
from tests.tenancy import operation, page


def a_quote_of(cast: Cast, *, executions: int = 1000) -> Quote:
    """A valid quote, as of now."""
    market, now = open_market(), timezone.now()
    program = market.program(cast.organisation, cast.engineer)
    return quote_create(
        organisation=cast.organisation,
        lines=[(program, executions)],
        klass="standard",
        pool=market.lpu,
        window=(now, now + timedelta(days=1)),
        actor=cast.engineer,
        now=now,
    )


def a_contract_of(cast: Cast, *, executions: int = 1000) -> Contract:
    """A contract accepted now."""
    quote = a_quote_of(cast, executions=executions)
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=timezone.now())


def _market(cast: Cast) -> dict[str, Any]:
    open_market()
    return {}


def _quote(cast: Cast) -> dict[str, Any]:
    return {"pk": a_quote_of(cast).pk}


def _file(cast: Cast) -> dict[str, Any]:
    return {**_quote(cast), "kind": "pdf"}


def a_shared_quote_of(cast: Cast) -> Quote:
    """A quote with a link that works."""
    quote = a_quote_of(cast)
    return quote_share(quote_id=quote.pk, organisation=cast.organisation, actor=cast.engineer, now=timezone.now())


def _shared(cast: Cast) -> dict[str, Any]:
    return {"token": a_shared_quote_of(cast).share_token}


def _contract(cast: Cast) -> dict[str, Any]:
    return {"pk": a_contract_of(cast).pk}


def a_request_of(cast: Cast) -> StandingRequest:
    """A standing request that waits."""
    quote = a_quote_of(cast)
    return standing_file(
        quote_id=quote.pk, organisation=cast.organisation, most=quote.worst, actor=cast.engineer, now=timezone.now()
    )


def _request(cast: Cast) -> dict[str, Any]:
    return {"pk": a_request_of(cast).pk}


def _commitment(cast: Cast) -> dict[str, Any]:
    open_market()
    entered = commitment_enter(
        organisation=cast.organisation, kind="month", minimum=Decimal(100), actor=cast.owner, now=timezone.now()
    )
    return {"pk": entered.pk}


def a_plan_of(cast: Cast, *, items: int = 1000) -> Plan:
    """A plan with one feasible candidate, as of now."""
    program = open_market().program(cast.organisation, cast.engineer)
    return plan_create(
        subject=program.model_version, requirements=Requirements(items), actor=cast.engineer, now=timezone.now()
    )


def _plan(cast: Cast) -> dict[str, Any]:
    return {"pk": a_plan_of(cast).pk}


def _held_plan(cast: Cast) -> dict[str, Any]:
    plan = a_plan_of(cast)
    plan_hold(plan_id=plan.pk, organisation=cast.organisation, actor=cast.engineer, now=timezone.now())
    return {"pk": plan.pk}


RULES = {"newcomer_credit": "50", "pool_share": "0.5", "horizon_days": 30}

ROUTES = [
    page("/buying", "GET", "POST", admin=True, make=_market),
    page("/buying/<uuid:pk>", "POST", admin=True, make=lambda cast: {"pk": cast.organisation.pk}),
    operation("GET /buying-rules", scope=Scope.ADMIN, make=_market),
    operation("PUT /buying-rules", scope=Scope.ADMIN, make=_market, body=RULES),
    operation(
        "PUT /organisations/{uuid:pk}/standing",
        scope=Scope.ADMIN,
        make=lambda cast: {"pk": cast.organisation.pk},
        body={"is_approved": True},
    ),
    page("/plans/<uuid:pk>/hold", make=_plan),
    page("/plans/<uuid:pk>/hold", "POST", roles=ENGINEERING, make=_plan),
    page("/plans/<uuid:pk>/hold/release", "POST", roles=ENGINEERING, make=_plan),
    operation("POST /plans/{uuid:pk}/hold", roles=ENGINEERING, scope=Scope.BUILD, make=_plan),
    operation("GET /plans/{uuid:pk}/hold", make=_held_plan),
    operation("GET /plans/{uuid:pk}/refusals", make=_plan),
    operation("DELETE /plans/{uuid:pk}/hold", roles=ENGINEERING, scope=Scope.BUILD, make=_held_plan),
    page("/quotes"),
    page("/quotes/new", "GET", "POST", roles=ENGINEERING),
    page("/quotes/new/preview", roles=ENGINEERING),
    page("/quotes/compare"),
    page("/quotes/<uuid:pk>", make=_quote),
    page("/quotes/<uuid:pk>/name", "POST", roles=ENGINEERING, make=_quote),
    operation(
        "PATCH /quotes/{uuid:pk}", roles=ENGINEERING, scope=Scope.BUILD, make=_quote, body={"name": "Nightly batch"}
    ),
    page("/contracts/<uuid:pk>/name", "POST", roles=ENGINEERING, make=_contract),
    operation(
        "PATCH /contracts/{uuid:pk}",
        roles=ENGINEERING,
        scope=Scope.BUILD,
        make=_contract,
        body={"name": "Nightly batch"},
    ),
    page("/quotes/<uuid:pk>/withdraw", "POST", roles=ENGINEERING, make=_quote),
    page("/quotes/<uuid:pk>/share", "POST", roles=ENGINEERING, make=_quote),
    page("/quotes/<uuid:pk>/unshare", "POST", roles=ENGINEERING, make=_quote),
    page("/quotes/<uuid:pk>/validity", make=_quote),
    page("/quotes/<uuid:pk>/accept", "GET", "POST", roles=BUYING, make=_quote),
    page("/quotes/<uuid:pk>/quote.<str:kind>", make=_file),
    page("/shared/quotes/<str:token>", public=True, make=_shared),
    page("/quotes/<uuid:pk>/wait", "GET", "POST", roles=BUYING, make=_quote),
    page("/standing"),
    page("/standing/<uuid:pk>", make=_request),
    page("/standing/<uuid:pk>/withdraw", "POST", roles=BUYING, make=_request),
    operation("GET /standing"),
    operation("GET /standing/{uuid:pk}", make=_request),
    operation("POST /standing", roles=BUYING, scope=Scope.BUY, body={"most": "0"}),
    operation("POST /standing/{uuid:pk}/withdraw", roles=BUYING, scope=Scope.BUY, make=_request),
    page("/quotas"),
    page("/quotas", "POST", roles=MONEY),
    operation("GET /quota-tree"),
    operation("PUT /quota-tree", roles=MONEY, scope=Scope.BUY, body={"nominal": None}),
    page("/commitments"),
    page("/commitments", "POST", roles=MONEY),
    page("/contracts"),
    page("/contracts/<uuid:pk>", make=_contract),
    page("/contracts/<uuid:pk>/plan", "POST", roles=ENGINEERING, make=_contract),
    operation("POST /contracts/{uuid:pk}/plan", roles=ENGINEERING, scope=Scope.BUILD, make=_contract),
    page("/contracts/<uuid:pk>/end", "POST", roles=BUYING, make=_contract),
    operation("POST /quotes/preview", roles=ENGINEERING, scope=Scope.BUILD, body={"lines": []}),
    operation("POST /quotes", roles=ENGINEERING, scope=Scope.BUILD, body={"lines": []}),
    operation("GET /quotes"),
    operation("GET /quotes/{uuid:pk}", make=_quote),
    operation("GET /quotes/{uuid:pk}/file", make=_quote),
    operation("GET /quotes/compare"),
    operation("POST /quotes/{uuid:pk}/withdraw", roles=ENGINEERING, scope=Scope.BUILD, make=_quote),
    operation("POST /quotes/{uuid:pk}/share", roles=ENGINEERING, scope=Scope.BUILD, make=_quote),
    operation("DELETE /quotes/{uuid:pk}/share", roles=ENGINEERING, scope=Scope.BUILD, make=_quote),
    operation("POST /quotes/{uuid:pk}/accept", roles=BUYING, scope=Scope.BUY, make=_quote),
    operation("GET /commitments"),
    operation("POST /commitments", roles=MONEY, scope=Scope.BUY, body={"kind": "month", "minimum": "0"}),
    operation("GET /commitments/{uuid:pk}", make=_commitment),
    operation("GET /contracts"),
    operation("GET /contracts/{uuid:pk}", make=_contract),
    operation("GET /contracts/{uuid:pk}/end", make=_contract),
    operation("POST /contracts/{uuid:pk}/end", roles=BUYING, scope=Scope.BUY, make=_contract),
]
