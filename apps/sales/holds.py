"""Queries for the holds of plans."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.planner.models import Plan
from apps.sales.hold_models import HoldState, PlanHold
from apps.sales.models import Contract
from apps.timetable.models import Window


def hold_of(plan: Plan) -> PlanHold | None:
    """Return the newest hold of a plan, in any state; None if there is none."""
    related = PlanHold.objects.select_related("reservation", "quote__pool")
    return related.filter(plan=plan).order_by("-created_at", "-id").first()


def contract_of_plan(plan: Plan) -> Contract | None:
    """Return the newest contract bought with a quote of the plan; None if there is none."""
    return Contract.objects.filter(organisation=plan.organisation_id, plan_id=plan.pk).order_by("-accepted_at").first()


def hold_windows(hold: PlanHold) -> list[Window]:
    """Return the windows of a hold, ordered by start."""
    rows = Window.objects.filter(reservation_id=hold.reservation_id).select_related("device")
    return list(rows.order_by("period", "device_id"))


def display_state(hold: PlanHold, *, now: datetime) -> HoldState:
    """Return the state of a hold for display."""
    if hold.state != HoldState.HELD or hold.is_live(now=now):
        return HoldState(hold.state)
    return HoldState.EXPIRED if now >= hold.held_until else HoldState.RELEASED


def hold_context(plan: Plan, *, now: datetime) -> dict[str, Any]:
    """Return the template context for a plan's hold."""
    hold, contract = hold_of(plan), contract_of_plan(plan)
    if hold is None:
        return {"plan": plan, "hold": None, "is_live": False, "contract": contract}
    is_live = hold.is_live(now=now)
    return {
        "plan": plan,
        "hold": hold,
        "contract": contract,
        "is_live": is_live,
        "state": display_state(hold, now=now),
        "left": hold.held_until - now if is_live else None,
        "windows": hold_windows(hold) if is_live else [],
    }
