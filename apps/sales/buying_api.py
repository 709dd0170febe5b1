"""The API of buying limits, for administrators."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.pricing.amounts import Entered, amount_entered, currency_chosen
from apps.pricing.rating import decimal_text
from apps.sales import services

router = Router(tags=["administration"])
ADMIN = requires(Scope.ADMIN)


class RefusedOut(Schema):
    """A reason why the quote could not be accepted, with the remedy."""

    code: str
    title: str
    detail: str

    @staticmethod
    def resolve_code(found: Problem) -> str:
        return found.kind


class BuyingRulesIn(RequestBody):
    """`newcomer_credit` is the credit limit of organisations that have no payment method and no approval; null means no
    limit.

    `pool_share` is the share of a pool's device time over the next `horizon_days` days that one organisation may
    reserve in advance.
    """

    newcomer_credit: Entered | None
    pool_share: Decimal = Field(gt=0, le=1, decimal_places=4)
    horizon_days: int = Field(ge=1, le=3660)


class BuyingRulesOut(Schema):
    newcomer_credit: str | None
    pool_share: str
    horizon_days: int


class StandingIn(RequestBody):
    """`is_approved` lifts the newcomer credit limit.

    `credit` and `pool_share` are the organisation's own limits; null means that the general limit applies.
    """

    is_approved: bool
    credit: Entered | None = None
    pool_share: Decimal | None = Field(default=None, gt=0, le=1, decimal_places=4)


class StandingOut(Schema):
    has_payment_method: bool
    is_approved: bool
    credit: str | None
    pool_share: str | None


@router.get(
    "/buying-rules", auth=ADMIN, response=BuyingRulesOut, operation_id="buying_rules_get", summary="Buying limits"
)
def buying_rules_get(request: HttpRequest) -> BuyingRulesOut:
    """Returns the general limits."""
    rules = services.rules_now()
    return BuyingRulesOut(
        newcomer_credit=_text(rules.newcomer_credit),
        pool_share=decimal_text(rules.pool_share),
        horizon_days=rules.horizon.days,
    )


@router.put(
    "/buying-rules", auth=ADMIN, response=BuyingRulesOut, operation_id="buying_rules_set", summary="Set buying limits"
)
def buying_rules_set(request: HttpRequest, payload: BuyingRulesIn) -> BuyingRulesOut:
    """Sets the general limits. Existing contracts do not change."""
    services.buying_rules_set(
        newcomer_credit=_amount(payload.newcomer_credit),
        pool_share=payload.pool_share,
        horizon_days=payload.horizon_days,
        principal=principal_get(request),
        now=timezone.now(),
    )
    return buying_rules_get(request)


@router.put(
    "/organisations/{uuid:pk}/standing",
    auth=ADMIN,
    response=StandingOut,
    operation_id="standing_set",
    summary="Approve an organisation, or set its limits",
)
def standing_set(request: HttpRequest, pk: UUID, payload: StandingIn) -> StandingOut:
    """Sets the limits of one organisation."""
    organisation = Organisation.objects.filter(pk=pk).first()
    if organisation is None:
        raise Http404
    services.standing_set(
        organisation=organisation,
        is_approved=payload.is_approved,
        credit=_amount(payload.credit),
        pool_share=payload.pool_share,
        principal=principal_get(request),
        now=timezone.now(),
    )
    found = services.standing_of(organisation.pk)
    return StandingOut(
        has_payment_method=found.has_payment_method,
        is_approved=found.is_approved,
        credit=_text(found.credit),
        pool_share=_text(found.pool_share),
    )


def _amount(entered: Entered | None) -> Decimal | None:
    return None if entered is None else amount_entered(entered, currency=currency_chosen(None, now=timezone.now()))


def _text(value: Decimal | None) -> str | None:
    return None if value is None else decimal_text(value)
