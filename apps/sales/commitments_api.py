"""The API of commitments."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import MONEY, Scope
from apps.pricing.amounts import Entered, amount_entered, currency_chosen
from apps.pricing.rating import decimal_text
from apps.sales import services
from apps.sales.commitments import commitment_left, commitment_months, commitments_of
from apps.sales.models import Commitment

router = Router(tags=["commitments"])
ENTER = requires(Scope.BUY, roles=MONEY)


class CommitmentIn(RequestBody):
    """`minimum` is the monthly minimum, in the currency of the price book in force."""

    kind: Literal["month", "year", "three_years"]
    minimum: Entered


class CommitmentOut(Schema):
    id: UUID
    kind: str
    minimum: str
    currency: str
    factor: str
    starts_at: datetime
    ends_at: datetime
    accepted_at: datetime

    @staticmethod
    def resolve_minimum(row: Commitment) -> str:
        return decimal_text(row.minimum)

    @staticmethod
    def resolve_factor(row: Commitment) -> str:
        return decimal_text(row.factor)


class CommitmentMonthOut(Schema):
    """`missing` is the shortfall. After the end of the month, the shortfall becomes an invoice line with this `key`.

    `priced` is true if a price book in the commitment's currency was in force for the whole month. Otherwise, the month
    has no shortfall.
    """

    number: int
    key: str
    start: datetime
    end: datetime
    minimum: str
    used: str
    missing: str
    priced: bool


class CommitmentDetailOut(CommitmentOut):
    left: str
    months: list[CommitmentMonthOut]

    @staticmethod
    def resolve_left(row: Commitment) -> str:
        return decimal_text(commitment_left(row))

    @staticmethod
    def resolve_months(row: Commitment) -> list[dict[str, Any]]:
        return [
            {
                "number": month.number,
                "key": month.key,
                "start": month.start,
                "end": month.end,
                "minimum": decimal_text(month.minimum),
                "used": decimal_text(month.used),
                "missing": decimal_text(month.missing),
                "priced": month.priced,
            }
            for month in commitment_months(row)
        ]


@router.get("/commitments", response=list[CommitmentOut], operation_id="commitment_list", summary="Commitments")
@paginate(Cursor, ordering=("-accepted_at", "id"))
def commitment_list(request: HttpRequest) -> QuerySet[Commitment]:
    """Returns the newest commitments first."""
    return commitments_of(organisation_get(request))


@router.get(
    "/commitments/{uuid:pk}", response=CommitmentDetailOut, operation_id="commitment_get", summary="One commitment"
)
def commitment_get(request: HttpRequest, pk: UUID) -> Commitment:
    """Also returns the months of the commitment and the amount that can still be bought at the commitment's factor."""
    return org_object_get(request, Commitment, pk=pk)


@router.post(
    "/commitments",
    auth=ENTER,
    response={201: CommitmentDetailOut},
    operation_id="commitment_enter",
    summary="Enter a commitment",
)
@idempotent
def commitment_enter(request: HttpRequest, payload: CommitmentIn) -> tuple[int, Commitment]:
    """The commitment begins at once. If a month's usage is below `minimum`, the shortfall is charged."""
    organisation, now = organisation_get(request, roles=MONEY), timezone.now()
    minimum = amount_entered(payload.minimum, currency=currency_chosen(None, now=now))
    return 201, services.commitment_enter(
        organisation=organisation, kind=payload.kind, minimum=minimum, actor=principal_get(request).user, now=now
    )
