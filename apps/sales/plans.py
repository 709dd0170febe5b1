"""From a plan to the lines of a quote."""

from __future__ import annotations

from uuid import UUID

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.sales.builder import lines_of_plan
from apps.sales.services import QuoteLine


def plan_lines_get(*, organisation: Organisation, plan_id: UUID, items: int | None) -> tuple[list[QuoteLine], Pool]:
    """The chosen candidate of a plan for so many items (default: those that the plan was made for), and its pool."""
    from apps.planner.models import Plan
    from apps.planner.selectors import plan_lines, plan_pool, plan_volume

    plan = Plan.objects.filter(organisation=organisation, pk=plan_id).first()
    if plan is None:
        raise Problem(404, "Not found", "There is no such plan here, or it is not yours to see.")
    return lines_of_plan(plan_lines(plan), items=items or plan_volume(plan)), plan_pool(plan)
