"""Request, make and cancel capacity plans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.accounts.turns import turn
from apps.pricing.selectors import book_in_force
from apps.reports.capacity_plans.arithmetic import part, pool_plan
from apps.reports.capacity_plans.facts import Facts, facts_at
from apps.reports.models import CapacityPlan

NIGHTLY_AFTER = timedelta(hours=20)


class Cancelled(Exception):
    """Raised if a plan is cancelled while it is being made."""


@transaction.atomic
def capacity_plan_request(*, asked_by: User | None, now: datetime) -> CapacityPlan:
    """Create a capacity plan for a worker to make."""
    plan = CapacityPlan.objects.create(asked_by=asked_by, asked_at=now)
    audit_record(action="capacity-plan.ask", now=now, actor=asked_by, subject=f"capacity plan {plan.pk}")
    return plan


def capacity_plan_run(*, pk: UUID, now: datetime) -> CapacityPlan:
    """Make a requested plan and store the result. Safe to repeat."""
    plan = CapacityPlan.objects.get(pk=pk)
    with turn(f"capacity plan {pk}") as is_ours:
        if plan.finished_at is None and is_ours:
            _make(plan, now)
    plan.refresh_from_db()
    return plan


def _make(plan: CapacityPlan, now: datetime) -> None:
    facts = facts_at(now=plan.asked_at, currency=_currency(plan.asked_at))
    meter = _Meter(plan.pk)
    pools = []
    try:
        for number, pool in enumerate(facts.pools):
            pools.append(pool_plan(pool, progress=part(meter.at, number, len(facts.pools))))
    except Cancelled:
        return
    unfinished = CapacityPlan.objects.filter(pk=plan.pk, finished_at=None)
    unfinished.update(inputs_digest=facts.digest, result=_result(facts, pools), percent=100, finished_at=now)


def _currency(at: datetime) -> str:
    try:
        return book_in_force(at=at).currency
    except Problem:
        return ""


def _result(facts: Facts, pools: list[dict[str, Any]]) -> dict[str, Any]:
    return {"currency": facts.currency, "pools": pools, "left_out": list(facts.left_out)}


@dataclass
class _Meter:
    pk: UUID
    percent: int = 0

    def at(self, done: float) -> None:
        percent = min(99, int(100 * done))
        if percent > self.percent:
            self.percent = percent
            if not CapacityPlan.objects.filter(pk=self.pk, finished_at=None).update(percent=percent):
                raise Cancelled


@transaction.atomic
def capacity_plan_cancel(*, pk: UUID, actor: User, now: datetime) -> CapacityPlan:
    """Cancel a plan that is being made. Raises Problem(409) if the plan is finished."""
    if not CapacityPlan.objects.filter(pk=pk, finished_at=None).update(finished_at=now, is_cancelled=True):
        raise Problem(
            409, "Plan is finished", "This plan is finished, so it cannot be cancelled.", kind="capacity-plan-finished"
        )
    audit_record(action="capacity-plan.cancel", now=now, actor=actor, subject=f"capacity plan {pk}")
    return CapacityPlan.objects.get(pk=pk)


def capacity_plan_nightly(*, now: datetime) -> CapacityPlan | None:
    """Make the nightly plan. Return None if another plan was requested recently."""
    recent = CapacityPlan.objects.filter(asked_at__gt=now - NIGHTLY_AFTER, is_cancelled=False).exists()
    return None if recent else capacity_plan_run(pk=capacity_plan_request(asked_by=None, now=now).pk, now=now)
