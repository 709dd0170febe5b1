"""End plan holds as accepted, released or expired."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.services import audit_record
from apps.sales.hold_models import HoldState, PlanHold
from apps.sales.services.waiting import capacity_freed
from apps.timetable.holding import reservation_give_up


def open_hold(plan_id: UUID | None) -> PlanHold | None:
    """Return the plan's open hold, which may already have expired; None if there is none."""
    if plan_id is None:
        return None
    related = PlanHold.objects.select_related("reservation__pool", "quote__pool", "plan")
    return related.filter(plan_id=plan_id, state=HoldState.HELD).first()


def hold_end(hold: PlanHold, state: HoldState) -> None:
    """End a hold. The caller must hold the organisation's lock."""
    if state != HoldState.ACCEPTED:
        reservation_give_up(reservation_id=hold.reservation_id)
        capacity_freed(hold.reservation.pool)
    hold.state = state
    hold.save(update_fields=["state"])


@transaction.atomic
def plan_hold_release(
    *, plan_id: UUID, organisation: Organisation, actor: User | None, now: datetime
) -> PlanHold | None:
    """Release the hold of a plan. Return None if the plan has no hold. Safe to repeat."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    hold = PlanHold.objects.filter(organisation=organisation, plan_id=plan_id, state=HoldState.HELD).first()
    if hold is None:
        return None
    hold_end(hold, HoldState.EXPIRED if now >= hold.held_until else HoldState.RELEASED)
    audit_record(
        action="plan.hold.release",
        subject=f"plan {plan_id}",
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"hold": str(hold.pk)},
    )
    return hold


def plan_holds_end_due(*, now: datetime, limit: int = 200) -> int:
    """Release the expired holds, each in its own transaction. Return the number of holds released."""
    due = PlanHold.objects.filter(state=HoldState.HELD, held_until__lte=now).order_by("held_until")
    return sum(
        _expire(hold_id, organisation_id, now)
        for hold_id, organisation_id in list(due.values_list("pk", "organisation_id")[:limit])
    )


@transaction.atomic
def _expire(hold_id: UUID, organisation_id: UUID, now: datetime) -> bool:
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation_id)
    hold = PlanHold.objects.filter(pk=hold_id, state=HoldState.HELD, held_until__lte=now).first()
    if hold is None:
        return False
    hold_end(hold, HoldState.EXPIRED)
    audit_record(
        action="plan.hold.expire",
        subject=f"plan {hold.plan_id}",
        actor=None,
        organisation=hold.organisation,
        now=now,
        detail={"hold": str(hold.pk)},
    )
    return True
