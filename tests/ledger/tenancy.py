"""Who may open the addresses of the ledger."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import MONEY, Scope
from apps.accounts.services import token_create
from apps.registry.services import project_ensure
from tests.cast import Cast
from tests.sales.market import open_market
from tests.tenancy import operation


def _project(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"pk": project_ensure(organisation=cast.organisation, name="Cameras", now=timezone.now()).pk}


def _token(cast: Cast) -> dict[str, Any]:
    open_market()
    made, _ = token_create(
        user=cast.owner, organisation=cast.organisation, name="ci", scopes=[Scope.READ], now=timezone.now()
    )
    return {"pk": made.pk}


CAP = {"roles": MONEY, "scope": Scope.BILLING, "body": {"amount": "10.00"}}
ROUTES = [
    operation("GET /ledger/chain"),
    operation("GET /spend-caps"),
    operation("PUT /spend-caps/projects/{uuid:pk}", make=_project, **CAP),
    operation("PUT /spend-caps/tokens/{uuid:pk}", make=_token, **CAP),
]
