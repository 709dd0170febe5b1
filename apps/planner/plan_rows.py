"""The candidates of a plan, as rows of the page and points of the chart."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

from apps import figures
from apps.planner.combination_text import combination_sentences
from apps.planner.models import Plan
from apps.planner.plan_text import local_time, score_format_of_plan

Row = dict[str, Any]
FRONTIER_SHOWN, BEST_SHOWN = 8, 4
DRAWN, DRAWN_INFEASIBLE = 12, 8  # points of the chart


class CandidateRows(NamedTuple):
    """The candidates on a plan's page.

    `shown` are the rows of the table. `folded` are titled groups that the reader can open. `drawn` are the points of
    the chart.
    """

    shown: list[Row]
    folded: list[tuple[str, list[Row]]]
    drawn: list[Row]
    drawable: int  # how many have a latency and a price

    @property
    def drawn_note(self) -> str:
        left = self.drawable - len(self.drawn)
        if not left:
            return ""
        return (
            "The chart shows the frontier, the best candidates and those closest to being feasible; "
            f"{left:,} more candidates are listed below."
        )


def candidate_rows(plan: Plan) -> list[Row]:
    """Return a row for each candidate. The chosen candidate is first, and infeasible candidates are last."""
    score = score_format_of_plan(plan)
    rows = []
    for index, row in enumerate(plan.candidates):
        is_chosen = plan.chosen is not None and index == 0
        done = datetime.fromisoformat(row["completion"]) if row.get("completion") else None
        rows.append(
            {
                **row,
                "state": "chosen" if is_chosen else ("feasible" if row["feasible"] else "infeasible"),
                "per_thousand": _money_text(row["price_per_thousand"]),
                "combination": combination_of(row),
                "anchor": f"way-{index + 1}",
                "accuracy_text": None if row["accuracy"] is None else score.text(row["accuracy"]),
                "separator": "," if row["kind"] == "ensemble" else " then",
                "done_by": done,
                "done_text": None if done is None else local_time(done, plan),
            }
        )
    return rows


def combination_of(row: Row) -> list[str]:
    """Describe how the programs of a candidate process an item; empty for a single program."""
    names = [model["name"] for model in row["models"]]
    # Older plans have cascades of two programs only, with one threshold and one share.
    levels, shares = row.get("thresholds") or [row["threshold"]], row.get("shares") or [row["share"]]
    return combination_sentences(row["kind"], names, levels, shares)


def rows_of(plan: Plan) -> CandidateRows:
    """Choose the table rows, folded groups and chart points from a plan's candidates."""
    rows = candidate_rows(plan)
    feasible, infeasible = _split(rows, "feasible")
    front, behind = _split(feasible, "on_frontier")
    if feasible:
        shown = [feasible[0], *front[:FRONTIER_SHOWN], *behind[:BEST_SHOWN]]
    else:
        shown = [*(rows[change["candidate"]] for change in plan.changes), *infeasible[:BEST_SHOWN]]
    anchors = {row["anchor"] for row in shown}
    groups = _groups([row for row in rows if row["anchor"] not in anchors])
    drawable = [row for row in rows if row["latency"] and row["per_thousand"]]
    return CandidateRows(
        [row for row in rows if row["anchor"] in anchors], groups, _drawn(drawable, anchors), len(drawable)
    )


def _groups(rest: list[Row]) -> list[tuple[str, list[Row]]]:
    others, unmet = _split(rest, "feasible")
    groups = [
        ("Other feasible candidates", others),
        ("Infeasible single programs", [row for row in unmet if row["kind"] == "single"]),
        ("Infeasible combinations", [row for row in unmet if row["kind"] != "single"]),
    ]
    return [(title, some) for title, some in groups if some]


def _drawn(drawable: list[Row], anchors: set[str]) -> list[Row]:
    feasible, others = _split(drawable, "feasible")
    best = sorted(feasible, key=lambda row: (row["anchor"] not in anchors, feasible.index(row)))[:DRAWN]
    nearest = sorted(others, key=lambda row: (row["anchor"] not in anchors, len(row["reasons"]), others.index(row)))
    chosen = {row["anchor"] for row in [*best, *nearest[:DRAWN_INFEASIBLE]]}
    return [row for row in drawable if row["anchor"] in chosen]


def _split(rows: list[Row], name: str) -> tuple[list[Row], list[Row]]:
    return [row for row in rows if row[name]], [row for row in rows if not row[name]]


def _money_text(value: str | None) -> str | None:
    return None if value is None else figures.fixed(Fraction(value), 12).replace(",", "")
