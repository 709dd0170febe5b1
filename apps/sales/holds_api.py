"""The API of plan holds."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Whole
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING, Scope
from apps.planner.models import Plan
from apps.pricing.rating import decimal_text
from apps.sales import services
from apps.sales.buying_api import RefusedOut
from apps.sales.hold_models import HoldState, PlanHold
from apps.sales.holds import display_state, hold_of, hold_windows

router = Router(tags=["plans"])
BUILD = requires(Scope.BUILD, roles=ENGINEERING)


class HoldIn(RequestBody):
    candidate: Whole | None = Field(
        default=None,
        ge=0,
        le=10**6,
        description="The index of a feasible candidate in `candidates`. By default, the chosen candidate.",
    )


class HeldWindowOut(Schema):
    device: str
    start: datetime
    end: datetime


class HoldOut(Schema):
    """`quote` offers the held windows at the price `net` until `held_until`.

    `contract_id` is the id of the contract if the quote is accepted.
    """

    id: UUID
    plan: UUID
    quote: UUID
    contract_id: UUID
    state: HoldState
    held_until: datetime
    pool: str
    device_seconds: str
    net: str
    currency: str
    windows: list[HeldWindowOut]


def hold_out(hold: PlanHold, *, now: datetime) -> HoldOut:
    """Build the response for a hold."""
    windows = [HeldWindowOut(device=one.device.name, start=one.start, end=one.end) for one in hold_windows(hold)]
    return HoldOut(
        id=hold.pk,
        plan=hold.plan_id,
        quote=hold.quote_id,
        contract_id=hold.contract_id,
        state=display_state(hold, now=now),
        held_until=hold.held_until,
        pool=hold.quote.pool.slug,
        device_seconds=str(hold.seconds),
        net=decimal_text(hold.quote.worst),
        currency=hold.quote.currency,
        windows=windows,
    )


@router.post(
    "/plans/{uuid:pk}/hold",
    auth=BUILD,
    response={201: HoldOut},
    operation_id="plan_hold",
    summary="Hold a plan's capacity for ten minutes",
)
@idempotent
def plan_hold(request: HttpRequest, pk: UUID, payload: HoldIn | None = None) -> tuple[int, HoldOut]:
    """Creates a quote for the plan and holds its windows. No window begins before the hold ends."""
    plan, now = org_object_get(request, Plan, roles=ENGINEERING, pk=pk), timezone.now()
    hold = services.plan_hold(
        plan_id=plan.pk,
        organisation=plan.organisation,
        actor=principal_get(request).user,
        now=now,
        candidate=payload.candidate if payload else None,
    )
    return 201, hold_out(hold, now=now)


@router.get("/plans/{uuid:pk}/hold", response=HoldOut, operation_id="plan_hold_get", summary="Get a plan's hold")
def plan_hold_get(request: HttpRequest, pk: UUID) -> HoldOut:
    """Returns the newest hold of the plan, in any state; 404 if there is none."""
    return hold_out(_newest(org_object_get(request, Plan, pk=pk)), now=timezone.now())


@router.delete(
    "/plans/{uuid:pk}/hold", auth=BUILD, response=HoldOut, operation_id="plan_hold_release", summary="Release a hold"
)
def plan_hold_release(request: HttpRequest, pk: UUID) -> HoldOut:
    """Frees the held time. Safe to repeat. An accepted hold is not released; end its contract instead."""
    plan, now = org_object_get(request, Plan, roles=ENGINEERING, pk=pk), timezone.now()
    services.plan_hold_release(
        plan_id=plan.pk, organisation=plan.organisation, actor=principal_get(request).user, now=now
    )
    return hold_out(_newest(plan), now=now)


@router.get(
    "/plans/{uuid:pk}/refusals",
    response=list[RefusedOut],
    operation_id="plan_refusals",
    summary="Caps and limits that would block a plan's quote",
)
def plan_refusals(request: HttpRequest, pk: UUID) -> list[Problem]:
    """Returns the caps and limits that would now prevent the purchase of the chosen candidate. Capacity is not checked."""
    plan, principal = org_object_get(request, Plan, pk=pk), principal_get(request)
    token_id = principal.token.pk if principal.token else None
    return services.plan_refusals(plan=plan, actor=principal.user, now=timezone.now(), token_id=token_id)


def _newest(plan: Plan) -> PlanHold:
    hold = hold_of(plan)
    if hold is None:
        raise Problem(404, "Not found", "No capacity was ever held for this plan.", kind="not-found")
    return hold
