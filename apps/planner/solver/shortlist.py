"""Choose at most LIMIT combinations to test, from the tuning items, prices and free time alone.

Half of the slots go to combinations that should meet every requirement, the best first. The next slots go to
combinations that may miss only the required accuracy, the most accurate first. The remaining slots are filled in the
order of the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from apps.planner.solver.combinations import TunedCombination
from apps.planner.solver.thresholds import needed_of
from apps.planner.solver.types import LATENCY, Candidate, Requirements

LIMIT = 16
Estimate = Callable[[TunedCombination], Candidate]
Order = tuple[Fraction, Fraction, str, str]


def shortlist(
    tuned: Sequence[TunedCombination], requirements: Requirements, error: Fraction, estimated: Estimate
) -> list[TunedCombination]:
    """Return the combinations to test on each pool.

    `estimated` makes a candidate under the assumption that the test items behave like the tuning items.
    """
    ordered = sorted(tuned, key=lambda one: order_of(one, requirements))
    best = sorted(ordered, key=lambda one: Fraction(-one.seen.correct, one.seen.total))
    chosen: dict[tuple[object, ...], None] = {}
    _fill(chosen, LIMIT // 2, (c for c in ordered if _should(c, requirements, error) and estimated(c).feasible))
    _fill(chosen, LIMIT, (c for c in best if _in_time(c, requirements) and _but_accuracy(estimated(c))))
    _fill(chosen, LIMIT, ordered)
    return [one for one in tuned if one.key in chosen]


def order_of(tuned: TunedCombination, requirements: Requirements) -> Order:
    """Return the sort key of a combination: the objective on the tuning items, then the cost, then the name."""
    combination = tuned.combination
    latency = _latency(tuned) if requirements.objective == LATENCY else Fraction(0)
    return latency, tuned.load, combination.title, combination.parts[0].pool


def _fill(chosen: dict[tuple[object, ...], None], most: int, tuned: Iterable[TunedCombination]) -> None:
    if len(chosen) >= most:
        return
    for one in tuned:
        chosen[one.key] = None
        if len(chosen) >= most:
            return


def _should(tuned: TunedCombination, requirements: Requirements, error: Fraction) -> bool:
    there = tuned.combination.models[0].test.total
    needed = needed_of(requirements.accuracy, there, error)
    if requirements.accuracy is not None and (needed is None or tuned.seen.elsewhere(there).correct < needed):
        return False
    return _in_time(tuned, requirements)


def _in_time(tuned: TunedCombination, requirements: Requirements) -> bool:
    return requirements.latency is None or _latency(tuned) <= requirements.latency


def _latency(tuned: TunedCombination) -> Fraction:
    return sum((part.latency or Fraction(0) for part in tuned.combination.parts), Fraction(0))


def _but_accuracy(candidate: Candidate) -> bool:
    return candidate.feasible or [name for name, _ in candidate.gaps] == ["accuracy"]
