"""A plan in words and figures, for the page."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from apps import figures
from apps.planner.models import Plan
from apps.timetable.instants import MICROSECOND, instant_after

MINUTE = timedelta(minutes=1)

CERTAINTY = {"exact": "exact", "bound": "bound", "measured": "measured"}


def requirement_rows(plan: Plan, currency: str) -> list[tuple[str, str]]:
    """(requirement, what was stated) in the order of the form."""
    requirements = plan.requirements
    return [
        ("Items", figures.count_format(requirements["items"])),
        ("Accuracy", _stated("accuracy", requirements["accuracy"], currency, "at least ")),
        ("One item within", _stated("latency", requirements["latency"], currency)),
        ("All items within", _stated("duration", requirements["duration"], currency)),
        ("All items done by", _until(plan)),
        ("Budget", _stated("budget", requirements["budget"], currency)),
        ("Class of service", requirements["klass"].replace("_", " ")),
    ]


def _stated(name: str, value: str | None, currency: str, before: str = "") -> str:
    return "not stated" if value is None else before + value_text(name, value, currency)


def _until(plan: Plan) -> str:
    """Plans that were made before capacity was looked at have no such instant."""
    if "completion" not in plan.requirements:
        return "not stated"
    latest = _local(datetime.fromisoformat(plan.requirements["completion"]), plan)
    return latest if plan.requirements["until"] else f"not stated, so {latest}"


def _local(instant: datetime, plan: Plan) -> str:
    return figures.instant_format(instant, plan.organisation.time_zone)


def value_text(name: str, value: str, currency: str) -> str:
    """A requirement's value with its unit."""
    if name == "accuracy":
        return figures.percent_format(value, 2)
    if name == "budget":
        number = Fraction(value)
        text = figures.fixed(number, 6)
        return figures.money_format(text, currency)
    return figures.duration_format(value)


def change_rows(plan: Plan, currency: str) -> list[dict[str, Any]]:
    """Each change as one sentence, the cheapest first."""
    words = {"accuracy": "an accuracy of at least", "latency": "one item within", "duration": "all items within",
             "completion": "until", "budget": "a budget of"}  # fmt: skip
    rows = []
    for change in plan.changes:
        values = {name: _changed(name, value, plan, currency) for name, value in change["values"].items()}
        parts = [f"{words[name]} {text}" for name, text in values.items()]
        text = f"Allow {' and '.join(parts)}: then {change['title']} on {change['pool']} does it."
        rows.append({"text": text, "price": change["price"]})
    return rows


def _changed(name: str, value: str, plan: Plan, currency: str) -> str:
    """A value that a requirement would need to have; of the completion, which is in seconds after the plan was made, the
    minute that begins next."""
    if name != "completion":
        return value_text(name, _rounded(name, value), currency)
    done = instant_after(plan.created_at, Fraction(value)) + MINUTE - MICROSECOND
    return _local(done.replace(second=0, microsecond=0), plan)


def _rounded(name: str, value: str) -> str:
    """To the side on which the sentence stays true: accuracy down, the others up."""
    number = Fraction(value)
    grid = Fraction(1, 10_000) if name == "accuracy" else _grid(number)
    return str((number // grid) * grid if name == "accuracy" else -(-number // grid) * grid)


def _grid(number: Fraction) -> Fraction:
    """A unit in the third significant place."""
    grid = Fraction(1)
    while number and number / grid < 100:
        grid /= 10
    while number / grid >= 1000:
        grid *= 10
    return grid


def candidate_rows(plan: Plan) -> list[dict[str, Any]]:
    """The table of candidates: the chosen one first, the infeasible ones with their reasons last."""
    rows = []
    for index, row in enumerate(plan.candidates):
        is_chosen = plan.chosen is not None and index == 0
        done = datetime.fromisoformat(row["completion"]) if row.get("completion") else None
        rows.append(
            {
                **row,
                "state": "chosen" if is_chosen else ("feasible" if row["feasible"] else "infeasible"),
                "certainty": CERTAINTY[row["certainty"]],
                "per_thousand": _money_text(row["price_per_thousand"]),
                "models_used": row["models"],
                "cascade_text": cascade_text(row),
                "done_by": done,
                "done_text": None if done is None else _local(done, plan),
            }
        )
    return rows


def cascade_text(row: dict[str, Any]) -> list[str]:
    """What a cascade does with an item; empty for a single model."""
    if row["kind"] != "cascade":
        return []
    first, second = (model["name"] for model in row["models"])
    share = figures.percent_format(row["share"], 2)
    return [
        (f"{first} answers; what it is less than {figures.percent_format(row['threshold'], 2)} sure of goes on to {second}: "
        f"at most {share} of the items with 95 % confidence.")
    ]


def _money_text(value: str | None) -> str | None:
    """An exact fraction as a decimal of twelve places; the page rounds it once more for reading."""
    return None if value is None else figures.fixed(Fraction(value), 12).replace(",", "")
