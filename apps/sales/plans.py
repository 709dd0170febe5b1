"""The quote lines of a plan."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get
from apps.planner.models import Plan
from apps.sales.lines import QuoteLine


class PlannedWork(NamedTuple):
    """The work of a plan's candidate. `until`: the plan's deadline; None if there is no deadline."""

    lines: list[QuoteLine]
    pool: Pool
    items: int
    klass: str
    until: datetime | None


def plan_lines_get(
    *, organisation: Organisation, plan_id: UUID, items: int | None, candidate: int | None = None
) -> PlannedWork:
    """Return the quote lines of a plan's candidate for `items` items. Raises Problem.

    The defaults are the chosen candidate and the plan's own number of items.
    """
    plan = Plan.objects.filter(organisation=organisation, pk=plan_id).first()
    if plan is None:
        raise Problem(404, "Not found", "There is no such plan, or you may not see it.", kind="not-found")
    chosen = candidate_of(plan, candidate)
    planned = int(plan.requirements["items"])
    wanted = items or planned
    rows: list[dict[str, Any]] = chosen["lines"]
    programs = Program.objects.filter(organisation=organisation).in_bulk([UUID(row["program"]) for row in rows])
    lines = [
        QuoteLine(
            programs[UUID(row["program"])],
            ceil(Fraction(row["executions"], planned) * wanted),
            ceil(Fraction(row["expected"], planned) * wanted),
            planned=True,
        )
        for row in rows
    ]
    stated, klass = plan.requirements.get("until"), plan.requirements.get("klass") or "standard"
    until = datetime.fromisoformat(stated) if stated else None
    return PlannedWork(lines, pool_get(chosen["pool"]), wanted, klass, until)


def plan_until_check(until: datetime | None, *, end: datetime | None, now: datetime) -> None:
    """Raise Problem(409) if the plan's deadline has passed, unless the request gives an end in the future."""
    if until is None or now < until or (end is not None and end > now):
        return
    raise Problem(
        409,
        "The plan's deadline has passed",
        f"The items of this plan had to be done by {until:%Y-%m-%d %H:%M} UTC. Make a new plan with a later time.",
        kind="plan-over",
    )


def candidate_of(plan: Plan, number: int | None = None) -> dict[str, Any]:
    """Return the candidate with this number. The default is the chosen candidate.

    Raises Problem(409) if the candidate does not exist or is not feasible.
    """
    if number is None:
        if plan.chosen is None:
            detail = "No candidate of this plan is feasible. Change its requirements."
            raise Problem(409, "Nothing to quote", detail, kind="no-choice")
        chosen: dict[str, Any] = plan.chosen
        return chosen
    rows: list[dict[str, Any]] = plan.candidates
    if not 0 <= number < len(rows) or not rows[number]["feasible"]:
        detail = f"Candidate {number} of this plan does not exist or is not feasible. See the plan's page."
        raise Problem(409, "Not feasible", detail, kind="no-choice")
    return rows[number]
