"""Which combinations are judged: at most LIMIT statements, chosen by the choosing part, prices and free time alone.

Each statement costs all others a part of their error. Half of the places go to the combinations that should meet every
requirement and have least by the objective; then come those with the most right answers that should meet all but the
accuracy, in case the cheap ones fall short on the judging part; what is left over is filled in the order of the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from apps.planner.solver.columns import Column
from apps.planner.solver.thresholds import needed_of
from apps.planner.solver.types import LATENCY, Candidate, Requirements

LIMIT = 16
Estimate = Callable[[Column], Candidate]
Order = tuple[Fraction, Fraction, str, str]


def shortlist(
    columns: Sequence[Column], requirements: Requirements, error: Fraction, estimated: Estimate
) -> list[Column]:
    """The columns that are judged, each with every pool on which it is the same statement.

    `estimated` makes a candidate of a column as if the judging part had the shares of the choosing part.
    """
    ordered = sorted(columns, key=lambda column: order_of(column, requirements))
    best = sorted(ordered, key=lambda column: Fraction(-column.seen.correct, column.seen.total))
    chosen: dict[tuple[object, ...], None] = {}
    _fill(chosen, LIMIT // 2, (c for c in ordered if _should(c, requirements, error) and estimated(c).feasible))
    _fill(chosen, LIMIT, (c for c in best if _in_time(c, requirements) and _but_accuracy(estimated(c))))
    _fill(chosen, LIMIT, ordered)
    return [column for column in columns if column.key in chosen]


def order_of(column: Column, requirements: Requirements) -> Order:
    """By what the choosing part says of the objective; price before latency among equals, then the name."""
    way = column.way
    latency = _latency(column) if requirements.objective == LATENCY else Fraction(0)
    return latency, column.load, way.title, way.parts[0].pool


def _fill(chosen: dict[tuple[object, ...], None], most: int, columns: Iterable[Column]) -> None:
    """Statements in this order, until there are `most`."""
    if len(chosen) >= most:
        return
    for column in columns:
        chosen[column.key] = None
        if len(chosen) >= most:
            return


def _should(column: Column, requirements: Requirements, error: Fraction) -> bool:
    """What is cheap to know of `estimated(...).feasible`: accuracy and latency."""
    there = column.way.models[0].evaluate.total
    needed = needed_of(requirements.accuracy, there, error)
    if requirements.accuracy is not None and (needed is None or column.seen.elsewhere(there).correct < needed):
        return False
    return _in_time(column, requirements)


def _in_time(column: Column, requirements: Requirements) -> bool:
    return requirements.latency is None or _latency(column) <= requirements.latency


def _latency(column: Column) -> Fraction:
    return sum((part.latency or Fraction(0) for part in column.way.parts), Fraction(0))


def _but_accuracy(candidate: Candidate) -> bool:
    """Nothing speaks against it, or the accuracy alone."""
    return candidate.feasible or [name for name, _ in candidate.gaps] == ["accuracy"]
