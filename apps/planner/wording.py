"""A plan in words and figures, for the page."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple

from apps import figures
from apps.planner.combination_text import combination_sentences, narrowed_sentence
from apps.planner.models import Plan
from apps.planner.score_format import DEFAULT, ScoreFormat, score_format_of
from apps.planner.solver.types import COST, Narrowed
from apps.timetable.instants import MICROSECOND, instant_after

MINUTE = timedelta(minutes=1)
FRONTIER_SHOWN, BEST_SHOWN = 8, 4
DRAWN, DRAWN_INFEASIBLE = 80, 40

OBJECTIVE = {"cost": "Least cost", "latency": "Least latency", "device_time": "Least device time"}
BEST = {"cost": "Cheapest", "latency": "Fastest", "device_time": "Least device time"}
CERTAINTY = {"exact": "exact", "bound": "bound", "measured": "measured"}


def requirement_rows(plan: Plan, currency: str) -> list[tuple[str, str]]:
    """(requirement, what was stated) in the order of the form."""
    requirements, measure = plan.requirements, score_format_of_plan(plan)
    wanted = requirements["accuracy"]
    return [
        ("Items", figures.count_format(requirements["items"])),
        (measure.title, "not stated" if wanted is None else f"{measure.side} {measure.text(wanted)}"),
        ("One item within", _stated("latency", requirements["latency"], currency)),
        ("All items within", _stated("duration", requirements["duration"], currency)),
        ("All items done by", _until(plan)),
        ("Budget", _stated("budget", requirements["budget"], currency)),
        ("Class of service", plan.basis.get("class_title") or requirements["klass"].replace("_", " ")),
        ("Chosen by", OBJECTIVE[requirements.get("objective", COST)].lower()),
    ]


def score_format_of_plan(plan: Plan) -> ScoreFormat:
    """What a plan's accuracies measure; plans without a task are of evaluations that their owners state."""
    return score_format_of(plan.basis.get("metric", DEFAULT))


def _stated(name: str, value: str | None, currency: str) -> str:
    return "not stated" if value is None else value_text(name, value, currency)


def _until(plan: Plan) -> str:
    """Plans that were made before capacity was looked at have no such instant."""
    if "completion" not in plan.requirements:
        return "not stated"
    latest = _local(datetime.fromisoformat(plan.requirements["completion"]), plan)
    return latest if plan.requirements["until"] else f"not stated, so {latest}"


def _local(instant: datetime, plan: Plan) -> str:
    return figures.instant_format(instant, plan.organisation.time_zone)


def value_text(name: str, value: str, currency: str) -> str:
    """A requirement's value with its unit; of the accuracy the plan's measure says it."""
    if name == "budget":
        number = Fraction(value)
        text = figures.fixed(number, 6)
        return figures.money_format(text, currency)
    return figures.duration_format(value)


def change_rows(plan: Plan, currency: str) -> list[dict[str, Any]]:
    """Each change as one sentence, the cheapest first."""
    measure = score_format_of_plan(plan)
    words = {
        "accuracy": f"{measure.named} of {measure.side}",
        "latency": "one item within",
        "duration": "all items within",
        "completion": "until",
        "budget": "a budget of",
    }
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
    if name == "accuracy":
        return score_format_of_plan(plan).text(_rounded(name, value))
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
    rows, measure = [], score_format_of_plan(plan)
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
                "together_text": together_text(row),
                "anchor": f"way-{index + 1}",
                "accuracy_text": None if row["accuracy"] is None else measure.text(row["accuracy"]),
                "between": "," if row["kind"] == "ensemble" else " then",
                "done_by": done,
                "done_text": None if done is None else _local(done, plan),
            }
        )
    return rows


class Rows(NamedTuple):
    """The candidates as the page shows them: a few at once, the others folded by what they are."""

    shown: list[dict[str, Any]]
    folded: list[tuple[str, list[dict[str, Any]]]]

    @property
    def drawn(self) -> list[dict[str, Any]]:
        """What the chart draws: everything feasible, and of the others as many as leave it readable."""
        feasible, others = _split([*self.shown, *(row for _, rows in self.folded for row in rows)], "feasible")
        known = [
            row for row in [*feasible[:DRAWN], *others[:DRAWN_INFEASIBLE]] if row["latency"] and row["per_thousand"]
        ]
        return sorted(known, key=lambda row: int(row["anchor"].rpartition("-")[2]))


def _split(rows: list[dict[str, Any]], name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return [row for row in rows if row[name]], [row for row in rows if not row[name]]


def rows_of(plan: Plan) -> Rows:
    """The chosen candidate, the frontier and the next best ones at once; where nothing is feasible those that a change would make
    so, and the first few."""
    rows = candidate_rows(plan)
    feasible, infeasible = _split(rows, "feasible")
    front, behind = _split(feasible, "on_frontier")
    if feasible:
        shown = [feasible[0], *front[:FRONTIER_SHOWN], *behind[:BEST_SHOWN]]
    else:
        shown = [*(rows[change["candidate"]] for change in plan.changes), *infeasible[:BEST_SHOWN]]
    anchors = {row["anchor"] for row in shown}
    rest = [row for row in rows if row["anchor"] not in anchors]
    others, unmet = _split(rest, "feasible")
    alone = [row for row in unmet if row["kind"] == "single"]
    groups = [
        ("Other feasible candidates", others),
        ("Single programs that do not meet the requirements", alone),
        ("Combinations that do not meet the requirements", [row for row in unmet if row["kind"] != "single"]),
    ]
    return Rows([row for row in rows if row["anchor"] in anchors], [(title, some) for title, some in groups if some])


def together_text(row: dict[str, Any]) -> list[str]:
    """What several programs do with an item; empty for a single one."""
    names = [model["name"] for model in row["models"]]
    # Plans that were made when a cascade had two programs at most hold one threshold and one share.
    levels, shares = row.get("thresholds") or [row["threshold"]], row.get("shares") or [row["share"]]
    return combination_sentences(row["kind"], names, levels, shares)


def chosen_text(plan: Plan) -> list[str]:
    """Why the chosen candidate, and of how many."""
    basis, objective = plan.basis, plan.requirements.get("objective", COST)
    if "judged" not in basis:  # made when every combination of two programs was judged
        return [
            f"{BEST[objective]} of {basis['examined']:,} candidates: every program on every pool, and every cascade of two."
        ]
    judged = basis["judged"]
    several = [row for row in plan.candidates if row["kind"] != "single"]
    combined = basis["examined"] - (judged - len(several))
    first = f"{BEST[objective]} of {judged:,} candidates: every program on every pool alone"
    if not several:
        return [first + "."]
    said = [first + f", and {_counted(len(several), 'combination')} (cascades and votes)."]
    if combined > len(several):
        said.append(
            f"{combined:,} combinations were compared on the items that choose; the most promising were judged on the items that "
            "promise. Judging more would lower every bound."
        )
    narrowed = [narrowed_sentence(Narrowed(**one)) for one in basis["narrowed"]]
    return [*said, *narrowed]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _money_text(value: str | None) -> str | None:
    """An exact fraction as a decimal of twelve places; the page rounds it once more for reading."""
    return None if value is None else figures.fixed(Fraction(value), 12).replace(",", "")
