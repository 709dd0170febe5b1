"""The summary of a plan in three lines: the recommendation, the reasons, and possible improvements."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from apps import figures
from apps.planner.models import Plan
from apps.planner.plan_rows import combination_of
from apps.planner.plan_text import change_rows, relaxed_text
from apps.planner.solver.types import COST, DEVICE_TIME, LATENCY

BEST = {COST: "Cheapest", LATENCY: "Fastest", DEVICE_TIME: "Least device time"}
COMPARED_BY = {COST: "price_per_thousand", LATENCY: "latency", DEVICE_TIME: "duration"}
NEXT = {
    COST: "costs {more} more",
    LATENCY: "takes {more} longer for one item",
    DEVICE_TIME: "needs {more} more device time",
}


class Line(NamedTuple):
    """A line of the summary: a label and its sentences."""

    label: str
    sentences: list[str]


def summary_lines(plan: Plan) -> list[Line]:
    """Return the three summary lines of a plan."""
    if plan.chosen is None:
        return _infeasible_lines(plan)
    chosen: dict[str, Any] = plan.chosen
    recommended = [f"{chosen['title']} on {chosen['pool']}.", *combination_of(chosen)]
    return [
        Line("Recommended", recommended),
        Line("Why", _reasons(plan, chosen)),
        Line("To pay less", [*_cheaper(plan, chosen), *_unready(plan)]),
    ]


def _infeasible_lines(plan: Plan) -> list[Line]:
    rows, changes = plan.candidates, change_rows(plan, plan.basis["currency"])
    if not rows:
        return [Line("Recommended", ["No recommendation, because there are no candidates."])]
    closest = rows[plan.changes[0]["candidate"]] if plan.changes else rows[0]
    lines = [
        Line("Recommended", [_nothing(len(rows))]),
        Line("Why", [f"The closest candidate is {closest['title']} on {closest['pool']}.", *closest["reasons"]]),
    ]
    if changes:
        price = figures.price_format(changes[0]["price"], plan.basis["currency"])
        remedy = [f"{changes[0]['text']} Price for all items: {price}."]
    else:
        remedy = [
            "Relaxing the requirements does not make any candidate feasible. The reasons below state what is missing."
        ]
    return [*lines, Line("To make it feasible", [*remedy, *_unready(plan)])]


def _nothing(total: int) -> str:
    if total == 1:
        return "No recommendation, because the only candidate does not meet all requirements."
    return f"No recommendation, because none of the {total:,} candidates meets all requirements."


def _reasons(plan: Plan, chosen: dict[str, Any]) -> list[str]:
    objective = plan.requirements.get("objective", COST)
    feasible = [row for row in plan.candidates if row["feasible"]]
    total = len(plan.candidates)
    if total == 1:
        said = ["This is the only candidate, and it meets all requirements."]
    elif len(feasible) == 1:
        said = [f"This is the only one of {total:,} candidates that meets all requirements."]
    else:
        said = [f"{BEST[objective]} of the {len(feasible):,} that meet all requirements, out of {total:,} candidates."]
        said.append(_runner_up(feasible[1], feasible[0], objective))
    if chosen["certainty"] == "measured":
        said.append("The latency is measured, not proven.")
    return said


def _runner_up(other: dict[str, Any], best: dict[str, Any], objective: str) -> str:
    key, name = COMPARED_BY[objective], f"{other['title']} on {other['pool']}"
    ours, theirs = _number(best[key]), _number(other[key])
    if not ours or not theirs:
        return f"The next candidate is {name}."
    more = theirs / ours - 1
    if more <= 0:
        return f"The next candidate is {name}, which is equally good by this measure."
    if objective == COST and other["price"] == best["price"]:
        higher = figures.percent_format(more, 0 if more >= 1 else 1)
        return (
            f"The next candidate is {name}: its price per thousand items is {higher} higher, its total price the same."
        )
    return (
        f"The next candidate is {name}, which "
        f"{NEXT[objective].format(more=figures.percent_format(more, 0 if more >= 1 else 1))}."
    )


def _cheaper(plan: Plan, chosen: dict[str, Any]) -> list[str]:
    currency = plan.basis["currency"]
    usage = Fraction(chosen["price_per_thousand"]) * plan.requirements["items"] / 1000
    if usage < Fraction(chosen["price"]):
        price = figures.price_format(chosen["price"], currency)
        return [
            (
                f"No change lowers the price, because {price} is the minimum price of a contract. A larger number of "
                "items may cost the same."
            )
        ]
    found = _cheapest(plan, Decimal(chosen["price"]))
    said = []
    if found is not None:
        price = figures.price_format(found["price"], currency)
        less = figures.percent_format(1 - Fraction(found["price"]) / Fraction(chosen["price"]))
        name = f"{found['title']} on {found['pool']}"
        if found["feasible"]:
            said.append(f"Choose {name}: {price}, {less} less.")
        else:
            said.append(
                f"If you allow {relaxed_text(plan, found['gaps'], currency)}, {name} costs {price}, {less} less."
            )
    classes = plan.basis.get("cheaper_classes") or []
    if classes:
        said.append(f"Cheaper classes of service: {', '.join(classes)}.")
    return said or ["No candidate is cheaper, even if a requirement is relaxed."]


def _cheapest(plan: Plan, limit: Decimal) -> dict[str, Any] | None:
    rows = [row for row in plan.candidates if row["price"] is not None and Decimal(row["price"]) < limit]
    possible = [row for row in rows if row["feasible"] or row.get("gaps")]
    return min(possible, key=lambda row: (len(row.get("gaps") or ()), Decimal(row["price"])), default=None)


def _unready(plan: Plan) -> list[str]:
    compiling = plan.basis.get("compiling", 0)
    if not compiling:
        return []
    what = "1 compile was" if compiling == 1 else f"{compiling:,} compiles were"
    return [f"{what} still under way when this plan was made. Plan again when the programs are ready."]


def _number(value: str | None) -> Fraction | None:
    return None if value is None else Fraction(value)
