"""The API of the quota tree."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.roles import MONEY, Scope
from apps.sales.services.nodes import node_name, node_set, tree_with_use

router = Router(tags=["quotas"])
SET = requires(Scope.BUY, roles=MONEY)
MOST_SECONDS = 10**10


class QuotaNodeIn(RequestBody):
    """A quota that limits the seconds of device time reserved for the future.

    The quota applies to an API token in a project, to a project, or (without `project` and `token`) to the
    organisation. A null `nominal` removes the quota. If `lending` is null, all unused time is lent. If `borrowing` is
    null, borrowing is unlimited.
    """

    project: UUID | None = None
    token: UUID | None = None
    nominal: Decimal | None = Field(ge=0, le=MOST_SECONDS, decimal_places=6)
    lending: Decimal | None = Field(default=None, ge=0, le=MOST_SECONDS, decimal_places=6)
    borrowing: Decimal | None = Field(default=None, ge=0, le=MOST_SECONDS, decimal_places=6)


class QuotaNodeOut(Schema):
    """All durations are exact seconds, as text.

    `used` includes the use of all nodes below this node. `borrowed` is time lent by other nodes.
    """

    name: str
    project: UUID | None
    token: UUID | None
    nominal: str
    lending: str | None
    borrowing: str | None
    used: str
    borrowed: str
    free: str
    set_at: datetime


def _tree(request: HttpRequest, organisation: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": node_name(row),
            "project": row.project_id,
            "token": row.token_id,
            "nominal": _text(row.nominal_us),
            "lending": _text(row.lending_us),
            "borrowing": _text(row.borrowing_us),
            "used": _text(use.used),
            "borrowed": _text(use.borrowed),
            "free": _text(use.free),
            "set_at": row.set_at,
        }
        for row, use in tree_with_use(organisation, now=timezone.now())
    ]


@router.get("/quota-tree", response=list[QuotaNodeOut], operation_id="quota_tree_get", summary="Quota tree")
def quota_tree_get(request: HttpRequest) -> list[dict[str, Any]]:
    """Returns the organisation, its projects and their API tokens, with used and borrowed time.

    The list is empty if there are no quotas.
    """
    return _tree(request, organisation_get(request))


@router.put("/quota-tree", auth=SET, response=list[QuotaNodeOut], operation_id="quota_node_set", summary="Set a quota")
def quota_node_set(request: HttpRequest, payload: QuotaNodeIn) -> list[dict[str, Any]]:
    """Sets one quota and returns the whole tree. Existing reservations do not change."""
    organisation = organisation_get(request, roles=MONEY)
    node_set(
        organisation=organisation,
        project_id=payload.project,
        token_id=payload.token,
        nominal_us=_micros(payload.nominal),
        lending_us=_micros(payload.lending),
        borrowing_us=_micros(payload.borrowing),
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return _tree(request, organisation)


def _micros(seconds: Decimal | None) -> int | None:
    return None if seconds is None else int(Fraction(seconds) * 10**6)


def _text(micros: int | None) -> str | None:
    return None if micros is None else str(Fraction(micros, 10**6))
