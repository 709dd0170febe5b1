"""Check the figures of a candidate against the requirements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from apps import figures as written
from apps.planner.score_format import score_format_of
from apps.planner.solver.types import Requirements

RELAXABLE = ("accuracy", "latency", "duration", "completion", "budget")
Figures = Mapping[str, Fraction | Decimal | None]  # requirement -> the candidate's figure, None if not known
Gaps = tuple[tuple[str, Fraction], ...]

_UNKNOWN = {
    "latency": "The latency is not known.",
    "duration": "The device time is not known.",
    "completion": "The completion time is not known.",
    "budget": "The price is not known.",
}
_UNMET = {
    "latency": "One item takes {found}; the maximum is {wanted}.",
    "duration": "All items take {found} of device time; the maximum is {wanted}.",
    "completion": "The pool has other work, so the last item would be done in {found}, but the deadline is in {wanted}.",
    "budget": "The price is above the budget.",
}


def checked(
    figures: Figures, requirements: Requirements, lacking: Sequence[str], explained: Collection[str]
) -> tuple[tuple[str, ...], Gaps]:
    """Return the reasons against a candidate, and the values to which unmet requirements must be relaxed.

    `lacking` holds the reasons that cannot be removed by relaxing requirements. A requirement in `explained` gets no
    further reason if its value is unknown.
    """
    unmet = [row for row in _unmet(figures, requirements) if row[1] is not None or row[0] not in explained]
    reasons = (*lacking, *(text for _, _, text in unmet))
    gaps = tuple((name, value) for name, value, _ in unmet if value is not None)
    return reasons, gaps if not lacking and len(gaps) == len(unmet) else ()


def _unmet(figures: Figures, requirements: Requirements) -> Iterator[tuple[str, Fraction | None, str]]:
    for name in RELAXABLE:
        wanted, found = getattr(requirements, name), figures[name]
        if wanted is None:
            continue
        if found is None:
            yield name, None, _unknown(name, requirements.metric)
        elif (found < wanted) if name == "accuracy" else (found > wanted):
            yield name, Fraction(found), _shortfall(name, Fraction(found), Fraction(wanted), requirements.metric)


def _unknown(name: str, metric: str) -> str:
    if name == "accuracy":
        return f"The program was not evaluated, so no {score_format_of(metric).name} can be promised."
    return _UNKNOWN[name]


def _shortfall(name: str, found: Fraction, wanted: Fraction, metric: str) -> str:
    if name == "accuracy":
        return score_format_of(metric).shortfall_sentence(found, wanted)
    nanoseconds = [f"{written.fixed(value * 10**9, 3)}{written.NARROW_SPACE}ns" for value in (found, wanted)]
    pairs = [(written.duration_format(found), written.duration_format(wanted)), (nanoseconds[0], nanoseconds[1])]
    apart = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
    return _UNMET[name].format(found=apart[0], wanted=apart[1])
