"""A plan's requirements and proposed changes as text."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from apps import figures
from apps.planner.combination_text import narrowed_sentence
from apps.planner.models import Plan
from apps.planner.score_format import DEFAULT, ScoreFormat, score_format_of
from apps.planner.solver.types import COST, Narrowed
from apps.timetable.instants import MICROSECOND, instant_after

MINUTE = timedelta(minutes=1)
OBJECTIVE = {"cost": "Lowest price", "latency": "Lowest latency", "device_time": "Least device time"}
NOT_REQUIRED = "not required"


def requirement_rows(plan: Plan, currency: str) -> list[tuple[str, str]]:
    """Return the stated requirements as (name, value) pairs, in the order of the form."""
    requirements, score = plan.requirements, score_format_of_plan(plan)
    wanted = requirements["accuracy"]
    return [
        ("Items", figures.count_format(requirements["items"])),
        (score.title, NOT_REQUIRED if wanted is None else f"{score.side} {score.text(wanted)}"),
        ("Latency", _at_most("latency", requirements["latency"], currency)),
        ("Device time", _at_most("duration", requirements["duration"], currency)),
        ("Deadline", _deadline(plan)),
        ("Budget", _at_most("budget", requirements["budget"], currency)),
        ("Class of service", plan.basis.get("class_title") or requirements["klass"].replace("_", " ")),
        ("Objective", OBJECTIVE[requirements.get("objective", COST)].lower()),
    ]


def score_format_of_plan(plan: Plan) -> ScoreFormat:
    """Return the format of the plan's accuracies; the default format if the plan has no task."""
    return score_format_of(plan.basis.get("metric", DEFAULT))


def local_time(instant: datetime, plan: Plan) -> str:
    """Return an instant as text in the organisation's time zone."""
    return figures.instant_format(instant, plan.organisation.time_zone)


def value_text(name: str, value: str, currency: str) -> str:
    """Return a requirement's value with its unit. Accuracies have a format of their own (`ScoreFormat`)."""
    if name == "budget":
        return figures.money_format(figures.fixed(Fraction(value), 6), currency)
    return figures.duration_format(value)


def relaxed_text(plan: Plan, values: dict[str, str], currency: str) -> str:
    """Name relaxed requirements with their values: "a latency of 12 µs and a budget of EUR 3"."""
    score = score_format_of_plan(plan)
    words = {
        "accuracy": f"{score.named} of {score.side}",
        "latency": "a latency of",
        "duration": "a device time of",
        "completion": "a deadline of",
        "budget": "a budget of",
    }
    return " and ".join(f"{words[name]} {_relaxed(name, value, plan, currency)}" for name, value in values.items())


def change_rows(plan: Plan, currency: str) -> list[dict[str, Any]]:
    """Return a sentence and a price for each proposed change, the cheapest first."""
    return [
        {
            "text": f"If you allow {relaxed_text(plan, change['values'], currency)}, {change['title']} on {change['pool']} is "
            "feasible.",
            "price": change["price"],
        }
        for change in plan.changes
    ]


def comparison_sentences(plan: Plan) -> list[str]:
    """Say how many candidates were compared, and how."""
    basis = plan.basis
    if "judged" not in basis:  # older plans: every combination of two programs was judged
        return [f"{basis['examined']:,} candidates: every program on every pool, and every cascade of two."]
    judged = basis["judged"]
    several = [row for row in plan.candidates if row["kind"] != "single"]
    combined = basis["examined"] - (judged - len(several))
    if not several:
        return [f"{judged:,} candidates: every program on every pool."]
    said = [f"{judged:,} candidates: every program on every pool, and {_counted(len(several), 'combination')}."]
    if combined > len(several):
        said.append(
            f"{combined:,} combinations were compared on the tuning items, and the most promising of them were tested on the "
            "test items. Testing more combinations would lower every proven bound."
        )
    return [*said, *(narrowed_sentence(Narrowed(**one)) for one in basis["narrowed"])]


def _at_most(name: str, value: str | None, currency: str) -> str:
    return NOT_REQUIRED if value is None else f"at most {value_text(name, value, currency)}"


def _deadline(plan: Plan) -> str:
    if "completion" not in plan.requirements:
        return NOT_REQUIRED
    latest = local_time(datetime.fromisoformat(plan.requirements["completion"]), plan)
    return latest if plan.requirements["until"] else f"{latest} (default)"


def _relaxed(name: str, value: str, plan: Plan, currency: str) -> str:
    if name == "accuracy":
        return score_format_of_plan(plan).text(_rounded(name, value))
    if name != "completion":
        return value_text(name, _rounded(name, value), currency)
    done = instant_after(plan.created_at, Fraction(value)) + MINUTE - MICROSECOND
    return local_time(done.replace(second=0, microsecond=0), plan)


def _rounded(name: str, value: str) -> str:
    number = Fraction(value)
    grid = Fraction(1, 10_000) if name == "accuracy" else _grid(number)
    return str((number // grid) * grid if name == "accuracy" else -(-number // grid) * grid)


def _grid(number: Fraction) -> Fraction:
    grid = Fraction(1)
    while number and number / grid < 100:
        grid /= 10
    while number / grid >= 1000:
        grid *= 10
    return grid


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
