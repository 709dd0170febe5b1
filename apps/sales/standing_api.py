"""The API of standing requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Instant
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import BUYING, Scope
from apps.pricing.amounts import Entered, amount_entered
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_of_digest
from apps.sales import services
from apps.sales.models import Quote, StandingRequest
from apps.sales.standing_selectors import places_of, protected_at, standing_of_organisation

router = Router(tags=["standing requests"])
BUY = requires(Scope.BUY, roles=BUYING)


class StandingRequestIn(RequestBody):
    """`quote` defines the work. `most` is the maximum price, which is set aside at once.

    `until` is the time by which the work must finish; the default is the end of the quote's window. `pools` lists the
    allowed pools; the default is the quote's pool.
    """

    quote: UUID
    most: Entered
    until: Instant | None = None
    pools: list[str] = Field(default=[], max_length=10)


class StandingRequestOut(Schema):
    id: UUID
    number: int
    state: Literal["waiting", "served", "expired", "withdrawn", "refused"]
    quote: UUID
    pools: list[str]
    klass: str
    form: str
    most: str
    currency: str
    until: datetime
    waits_until: datetime
    filed_at: datetime
    ended_at: datetime | None
    contract: UUID | None
    reason_code: str = Field(
        description="Why the request was not served at the last attempt; empty before the first attempt."
    )
    reason: str

    @staticmethod
    def resolve_quote(row: StandingRequest) -> UUID:
        return row.quote_id

    @staticmethod
    def resolve_contract(row: StandingRequest) -> UUID | None:
        return row.contract_id

    @staticmethod
    def resolve_most(row: StandingRequest) -> str:
        return decimal_text(row.most)

    @staticmethod
    def resolve_reason_code(row: StandingRequest) -> str:
        return row.reason_kind


class PlaceOut(Schema):
    pool: str
    position: int
    waiting: int
    protected: bool


class StandingDetailOut(StandingRequestOut):
    """The request becomes protected at `protected_at`.

    From then on, other requests may not use the time that this request claims.
    """

    protected_at: datetime
    places: list[PlaceOut]

    @staticmethod
    def resolve_protected_at(row: StandingRequest) -> datetime:
        return protected_at(row)

    @staticmethod
    def resolve_places(row: StandingRequest) -> list[Any]:
        return list(places_of(row, now=timezone.now()))


@router.get("/standing", response=list[StandingRequestOut], operation_id="standing_list", summary="Standing requests")
@paginate(Cursor, ordering=("-filed_at", "-id"))
def standing_list(request: HttpRequest) -> QuerySet[StandingRequest]:
    """Returns the newest requests first."""
    return standing_of_organisation(organisation_get(request))


@router.get(
    "/standing/{uuid:pk}", response=StandingDetailOut, operation_id="standing_get", summary="One standing request"
)
def standing_get(request: HttpRequest, pk: UUID) -> StandingRequest:
    """Also returns the request's position on each pool."""
    return org_object_get(request, StandingRequest, pk=pk)


@router.post(
    "/standing", auth=BUY, response={201: StandingDetailOut}, operation_id="standing_file", summary="Wait for room"
)
@idempotent
def standing_file(request: HttpRequest, payload: StandingRequestIn) -> tuple[int, StandingRequest]:
    """Sets `most` aside. The request is served as soon as there is room at a price of at most `most`.

    If the request ends without being served, the amount is released.
    """
    quote, principal = org_object_get(request, Quote, pk=payload.quote, roles=BUYING), principal_get(request)
    return 201, services.standing_file(
        quote_id=quote.pk,
        organisation=quote.organisation,
        most=amount_entered(payload.most, currency=book_of_digest(quote.document["book"]["digest"]).currency),
        until=payload.until,
        pools=payload.pools,
        actor=principal.user,
        now=timezone.now(),
        token_id=principal.token.pk if principal.token else None,
    )


@router.post(
    "/standing/{uuid:pk}/withdraw",
    auth=BUY,
    response=StandingDetailOut,
    operation_id="standing_withdraw",
    summary="Stop waiting",
)
def standing_withdraw(request: HttpRequest, pk: UUID) -> StandingRequest:
    """Releases the hold. Safe to repeat."""
    row = org_object_get(request, StandingRequest, pk=pk, roles=BUYING)
    return services.standing_withdraw(
        request_id=row.pk, organisation=row.organisation, actor=principal_get(request).user, now=timezone.now()
    )
