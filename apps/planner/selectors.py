"""Read plans, and the classes of service that plans can use."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.fleet.models import Pool
from apps.fleet.selectors import pool_get
from apps.planner.models import Plan
from apps.pricing.rating import PriceClass, class_default, classes_plannable
from apps.pricing.selectors import book_in_force, document_of


def plans_list(*, organisation: Organisation) -> QuerySet[Plan]:
    """Return the organisation's plans, newest first."""
    return Plan.objects.filter(organisation=organisation).order_by("-created_at", "-id")


def plan_lines(plan: Plan) -> list[tuple[Program, Fraction]]:
    """Return the chosen candidate's programs in execution order, each with its executions per item.

    For the later programs of a cascade, the executions per item are a proven upper bound.
    """
    chosen = _chosen(plan)
    programs = (
        Program.objects.filter(organisation=plan.organisation)
        .select_related("model_version__model")
        .in_bulk([line["program"] for line in chosen["lines"]])
    )
    found = {str(pk): program for pk, program in programs.items()}
    return [(found[line["program"]], Fraction(line["per_item"])) for line in chosen["lines"]]


def plan_pool(plan: Plan) -> Pool:
    """Return the pool of the chosen candidate."""
    return pool_get(_chosen(plan)["pool"])


def plan_volume(plan: Plan) -> int:
    """Return the number of items that the plan requires."""
    return int(plan.requirements["items"])


def plan_classes(*, now: datetime) -> list[PriceClass]:
    """Return the classes for which a plan can be made now, the default class first.

    Raises Problem if there is no price book.
    """
    book = document_of(book_in_force(at=now))
    default = class_default(book)
    return sorted(classes_plannable(book), key=lambda one: one.name != default)


def _chosen(plan: Plan) -> dict[str, Any]:
    if plan.chosen is None:
        raise Problem(
            409,
            "Nothing to quote",
            "No candidate of this plan is feasible. Relax a requirement and plan again.",
            kind="nothing-to-quote",
        )
    chosen: dict[str, Any] = plan.chosen
    return chosen
