"""A plan saved as a file, and the changes since the plan was saved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from apps import figures
from apps.cli.planning.answer import Answer, candidate_json
from apps.cli.planning.reading import Table, toml_read
from apps.planner.solver import Candidate

FORMAT = "takt-plan/1"
WHAT = "a plan that takt plan -o wrote"
KEYS = ("format", "task", "at", "currency", "chosen", "facts")
SINGLE = ("title", "pool", "price", "latency", "accuracy", "devices", "headroom", "programs")
TOGETHER = ("kind", "thresholds", "shares", "outputs")  # of several programs
SAY = {"fleet": "fleet", "book": "price book", "volume": "volume", "requirements": "requirements", "data": "data set"}


@dataclass(frozen=True)
class Saved:
    """A saved plan. `figures` maps each name to the planned value; None if unknown."""

    path: Path
    task: Path
    currency: str
    title: str
    pool: str
    figures: dict[str, Fraction | None]
    thresholds: list[str]
    facts: dict[str, Any]


def plan_write(answer: Answer, chosen: Candidate, to: Path) -> str:
    """Return the text of the plan's file. `to` is the path of the plan's file; the path of the task is relative to
    `to`.
    """
    row = candidate_json(answer, chosen)
    values = {key: row[key] for key in SINGLE if key != "programs"}
    if len(chosen.uses) > 1:
        values |= {key: row[key] for key in TOGETHER if row[key]}
    values["programs"] = [line["program"] for line in row["lines"]]
    name = os.path.relpath(answer.task.path.resolve(), to.resolve().parent)
    lines = [
        "# What was planned. `takt plan --check` says whether a change still fits.",
        f"format = {_text(FORMAT)}",
        f"task = {_text(Path(name).as_posix())}",
        f"at = {answer.task.at.isoformat()}",
        f"currency = {_text(answer.task.book.currency.code)}",
        "",
        "[chosen]",
        *(f"{key} = {_text(value)}" for key, value in values.items() if value is not None),
        "",
        "[facts]",
        *(f"{key} = {_text(value)}" for key, value in answer.facts.items() if not isinstance(value, dict)),
        "",
        "[facts.models]",
        *(f"{_text(key)} = {_text(value)}" for key, value in answer.facts["models"].items()),
        "",
    ]
    return "\n".join(lines)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def plan_read(path: Path) -> Saved:
    """Read a plan's file. Raises FileFault."""
    table = toml_read(path, WHAT, FORMAT).only(KEYS)
    chosen, facts = table.table("chosen"), table.table("facts")
    if chosen is None or facts is None:
        raise table.wrong("chosen", f"what was planned is missing; give {WHAT}.")
    chosen.only((*SINGLE, *TOGETHER))
    numbers = {key: _number(chosen, key) for key in ("price", "latency", "accuracy", "devices", "headroom")}
    return Saved(
        path,
        table.path_of("task"),
        table.text("currency"),
        chosen.text("title"),
        chosen.text("pool"),
        numbers,
        _levels(chosen),
        facts.values,
    )


def _number(table: Table, key: str) -> Fraction | None:
    value = table.values.get(key)
    if value is None:
        return None
    try:
        return Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError, InvalidOperation, OverflowError):
        raise table.wrong(key, f"it is not an exact number; give {WHAT}.") from None


def _levels(chosen: Table) -> list[str]:
    found = chosen.values.get("thresholds", [])
    try:
        if all(isinstance(one, str) and 0 <= Decimal(one) <= 1 for one in found):
            return list(found)
    except (TypeError, InvalidOperation):
        pass
    raise chosen.wrong("thresholds", f"these are not thresholds; give {WHAT}.")


@dataclass(frozen=True)
class Figure:
    """One figure as planned and as it is now, formatted for people."""

    name: str
    before: str
    after: str
    is_changed: bool


@dataclass(frozen=True)
class Check:
    """The result of comparing a saved plan with the present state.

    `planned` is the planned candidate as it is now. `way` is the candidate to compare with the plan: the planned
    candidate if still feasible, otherwise the cheapest feasible candidate. If no candidate is feasible, `way` is the
    planned candidate.
    """

    saved: Saved
    answer: Answer
    planned: Candidate | None
    way: Candidate | None

    @property
    def fits(self) -> bool:
        return self.answer.chosen is not None

    @property
    def keeps(self) -> bool:
        return self.planned is not None and self.planned.feasible


def check_of(saved: Saved, answer: Answer) -> Check:
    """Compare a saved plan with the present state."""
    planned = answer.found(saved.title, saved.pool)
    way = planned if planned is not None and planned.feasible else answer.chosen or planned
    return Check(saved, answer, planned, way)


def causes(check: Check) -> Iterator[str]:
    """Yield a description of each change since the plan was saved."""
    before, after = check.saved.facts, check.answer.facts
    old, new = before.get("models", {}), after["models"]
    old = old if isinstance(old, dict) else {}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            what = "added" if name not in old else "removed" if name not in new else "changed"
            yield f"model {name} {what}"
    for key, word in SAY.items():
        if before.get(key) != after.get(key):
            tail = f" (was {before[key]}, is {after[key]})" if key == "volume" and key in before else ""
            yield f"{word} changed{tail}"


def figures_of(check: Check) -> list[Figure]:
    """Return cost, latency, accuracy, devices and headroom, as planned and as they are now."""
    row = candidate_json(check.answer, check.way) if check.way is not None else {}
    found = []
    for name, key in (
        ("Cost", "price"),
        ("Latency", "latency"),
        (check.answer.measure.heading, "accuracy"),
        ("Devices needed", "devices"),
        ("Headroom", "headroom"),
    ):
        before = check.saved.figures[key]
        after = None if row.get(key) is None else Fraction(row[key])
        texts = [_shown(key, one, check) for one in (before, after)]
        found.append(Figure(name, texts[0], texts[1], before != after))
    levels = check.saved.thresholds, row.get("thresholds") or []
    if levels[0]:  # plans of one program, and older plans, have none
        texts = [", ".join(figures.percent_format(one, 2) for one in some) or "none" for some in levels]
        found.append(Figure("Thresholds", texts[0], texts[1], levels[0] != levels[1]))
    return found


def _shown(key: str, value: Fraction | None, check: Check) -> str:
    if value is None:
        return "not known"
    if key == "price":
        currency = check.answer.task.book.currency
        amount = Decimal(value.numerator) / Decimal(value.denominator)
        return figures.price_format(
            amount, currency.to_json() if currency.code == check.saved.currency else check.saved.currency
        )
    if key == "latency":
        return figures.duration_format(value)
    if key == "accuracy":
        return check.answer.measure.text(value)
    return f"{int(value):,}" if key == "devices" else figures.percent_format(value, 1)
