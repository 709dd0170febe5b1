"""The result of `takt plan` as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from apps import figures
from apps.cli.planning import evaluations, hosting
from apps.cli.planning.capacity import Fleet
from apps.cli.planning.programs import digests_of, models_read
from apps.cli.planning.task import Stated, facts_of, task_read
from apps.cli.planning.variants import Made, variants_of
from apps.planner.hosting.comparison import Group
from apps.planner.score_format import DEFAULT, ScoreFormat, score_format_of
from apps.planner.solver import Candidate, Change, Solution, solve
from apps.pricing.rating import decimal_text
from apps.timetable.instants import instant_after

RESULT = "takt-plan-result/1"


@dataclass(frozen=True)
class Answer:
    """The result of `takt plan`: the task, its solution, and the facts behind the solution."""

    task: Stated
    solution: Solution
    fleet: Fleet
    made: dict[str, Made]
    facts: dict[str, Any]
    evaluated: str
    metric: str = DEFAULT
    groups: Sequence[Group] = ()
    unused: Sequence[str] = ()

    @property
    def measure(self) -> ScoreFormat:
        return score_format_of(self.metric)

    @property
    def chosen(self) -> Candidate | None:
        """Return the cheapest feasible candidate; None if no candidate is feasible."""
        return None if self.solution.chosen is None else self.solution.candidates[self.solution.chosen]

    def found(self, title: str, pool: str) -> Candidate | None:
        """Return the candidate with this title on this pool; None if there is none."""
        return next((one for one in self.solution.candidates if (one.title, one.pool) == (title, pool)), None)


def answer_of(path: Path, *, now: datetime) -> Answer:
    """Read a task's file and all files that it names, then compile, evaluate and solve. Raises FileFault."""
    task = task_read(path, now=now)
    models = models_read(task.table)
    known = evaluations.known_read(task.table, models)
    elsewhere = hosting.places_read(task)
    made = variants_of(task, models, known, elsewhere.seconds_of)
    fleet = Fleet(task)
    wanted = replace(task.requirements, metric=known.metric)
    solution = solve([one.variant for one in made.values()], wanted, fleet)
    facts = facts_of(task, dict(digests_of(models)))
    if known.data is not None:
        facts["data"] = evaluations.file_digest(known.data)
    answer = Answer(task, solution, fleet, made, facts, known.words, known.metric)
    if not elsewhere:
        return answer
    groups, unused = hosting.compared(elsewhere, task, solution, models)
    return replace(answer, groups=groups, unused=unused)


def why(answer: Answer) -> str:
    """Return the reason for the choice as one sentence."""
    best, tried = answer.chosen, answer.solution.examined
    if best is None:
        return f"None of the {tried:,} candidates meets the requirements."
    feasible = [one for one in answer.solution.candidates if one.feasible]
    cheaper = sum(1 for one in answer.solution.candidates if not one.feasible and _below(one, best))
    tail = (
        f"; {cheaper:,} cheaper {'one does' if cheaper == 1 else 'ones do'} not meet the requirements"
        if cheaper
        else ""
    )
    ways = "1 candidate meets" if len(feasible) == 1 else f"{len(feasible):,} candidates meet"
    return f"{ways} the requirements, of {tried:,} tried, and this is the cheapest{tail}."


def _below(one: Candidate, best: Candidate) -> bool:
    return one.total_price is not None and best.total_price is not None and one.total_price < best.total_price


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return the result as JSON. Numbers are exact and written as strings, such as "3/4"."""
    task, solution, best = answer.task, answer.solution, answer.chosen
    return {
        "format": RESULT,
        "task": task.name,
        "at": task.at.isoformat(),
        "currency": task.book.currency.code,
        "class": task.klass,
        "volume": {"stated": task.volume.words, "items": task.volume.items, "peak_per_second": _text(task.volume.peak)},
        "until": task.window.end.isoformat(),
        "evaluated": answer.evaluated,
        "metric": answer.metric,
        "facts": answer.facts,
        "fits": best is not None,
        "why": why(answer),
        "chosen": None if best is None else candidate_json(answer, best),
        "candidates": [candidate_json(answer, one) for one in solution.candidates],
        "changes": [change_json(answer, one) for one in solution.changes],
        "examined": solution.examined,
        "judged": len(solution.candidates),
        "narrowed": [asdict(one) for one in solution.narrowed],
        "error": str(solution.error),
        "places": [hosting.group_json(group, task.volume.items) for group in answer.groups],
        "places_unused": list(answer.unused),
    }


def candidate_json(answer: Answer, one: Candidate) -> dict[str, Any]:
    """Return one candidate as JSON. `price` includes the contract minimum."""
    done = None if one.completion is None else instant_after(answer.task.at, one.completion).isoformat()
    programs = [answer.made[use.key].program for use in one.uses]
    return {
        "kind": one.kind,
        "title": one.title,
        "pool": one.pool,
        "feasible": one.feasible,
        "on_frontier": one.on_frontier,
        "reasons": list(one.reasons),
        "price": None if one.total_price is None else decimal_text(one.total_price),
        "latency": _text(one.latency),
        "duration": _text(one.duration),
        "completion": done,
        "accuracy": _text(one.accuracy),
        "thresholds": [str(value) for value in one.thresholds],
        "shares": [str(value) for value in one.shares],
        "outputs": list(one.outputs),
        # The first threshold and share, as before cascades of three programs.
        "threshold": _text(one.threshold),
        "share": _text(one.share),
        "certainty": one.certainty,
        "devices": answer.fleet.needed(one),
        "devices_active": len(answer.fleet.devices(one.pool)),
        "headroom": _text(answer.fleet.headroom(one)),
        "lines": [
            {"program": program.digest if program else None, "executions": use.executions, "expected": use.expected}
            for use, program in zip(one.uses, programs, strict=True)
        ],
    }


def change_json(answer: Answer, change: Change) -> dict[str, Any]:
    """Return a change as JSON: the requirement to relax, and the candidate that then becomes feasible."""
    candidate = answer.solution.candidates[change.candidate]
    return {
        "values": {name: str(value) for name, value in change.values},
        "said": change_said(answer, change),
        "title": candidate.title,
        "pool": candidate.pool,
        "price": decimal_text(change.price),
    }


_RELAXED = {
    "latency": "a latency of",
    "duration": "a device time of",
    "completion": "a time to completion of",
    "budget": "a budget of",
}


def change_said(answer: Answer, change: Change) -> str:
    """Return the change as one sentence."""
    candidate = answer.solution.candidates[change.candidate]
    words = {**_RELAXED, "accuracy": f"{answer.measure.named} of {answer.measure.side}"}
    parts = [f"{words[name]} {_value(answer, name, value)}" for name, value in change.values]
    return f"If you allow {' and '.join(parts)}, {candidate.title} on {candidate.pool} is feasible."


def _value(answer: Answer, name: str, value: Fraction) -> str:
    if name == "accuracy":
        return answer.measure.text(value)
    if name == "budget":
        cents = 10**answer.task.book.currency.exponent
        up = Fraction(-(-value * cents // 1), cents)  # rounded up to an amount that a budget can state
        return figures.price_format(figures.fixed(up, 6).replace(",", ""), answer.task.book.currency.to_json())
    return figures.duration_format(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
