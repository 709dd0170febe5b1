"""Lower bounds of macro F1 and of mean errors, and the number of runs that an estimate needs. Pure.

Items must be independent.

Macro F1: for each of C classes, F1 = 2 t / (2 t + e), where t is the share of true positives, and e the share of false
positives and false negatives. Clopper and Pearson bound t from below and e from above, each at error / (2 C).

Mean error: an item scores 1 - min(error, limit) / limit. The mean has two bounds: Hoeffding's (1963) and the empirical
bound of Maurer and Pontil (2009, theorem 4). Each bound is computed at half of the error, and the larger bound is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, log, sqrt
from typing import Any

from apps.planner.metrics import MACRO_F1, MEAN_ERROR
from apps.registry.confidence import GRID, lower_bound, upper_bound

Bound = Callable[[Fraction], Fraction]
Parts = Mapping[str, Mapping[str, Any]]  # an evaluation's items: "choose" and "evaluate"


def bound_of(metric: str, items: Parts) -> Bound | None:
    """Return a function that computes the metric's lower bound for a given error.

    Return None if the metric counts right answers.
    """
    judged = items["evaluate"]
    if metric.startswith(MACRO_F1):
        classes = sorted({*items["choose"]["labels"], *judged["labels"]})
        return lambda error: f1_bound(judged["labels"], judged["predicted"], classes, error)
    if metric.startswith(MEAN_ERROR):
        scores = [float(one) for one in judged["confidence"]]
        return lambda error: mean_bound(scores, error)
    return None


def f1_bound(labels: Sequence[int], predicted: Sequence[int], classes: Sequence[int], error: Fraction) -> Fraction:
    """Return a lower bound of macro F1, rounded down. The bound is wrong with probability at most `error`."""
    share = error / (2 * len(classes))
    total = Fraction(0)
    for one in classes:
        hits = sum(a == b == one for a, b in zip(labels, predicted, strict=True))
        misses = sum((a == one) != (b == one) for a, b in zip(labels, predicted, strict=True))
        least, most = lower_bound(hits, len(labels), share), upper_bound(misses, len(labels), share)
        total += 2 * least / (2 * least + most) if least else Fraction(0)
    return _down(total / len(classes))


def mean_bound(scores: Sequence[float], error: Fraction) -> Fraction:
    """Return a lower bound of the mean of scores from 0 to 1, rounded down.

    The bound is wrong with probability at most `error`.
    """
    count, mean = len(scores), sum(scores) / len(scores)
    hoeffding = mean - sqrt(log(2 / error) / (2 * count))
    if count < 2:
        return _down(Fraction(max(0.0, hoeffding)))
    variance = sum((score - mean) ** 2 for score in scores) / (count - 1)
    spread = log(4 / error)
    bernstein = mean - sqrt(2 * variance * spread / count) - 7 * spread / (3 * (count - 1))
    return _down(Fraction(max(0.0, hoeffding, bernstein)))


def runs_needed(half_width: Fraction, error: Fraction) -> int:
    """Return the number of independent runs that estimate a mean of values from 0 to 1 to within `half_width`.

    The estimate holds with probability 1 - `error` (Hoeffding, two-sided). Raises ValueError unless `half_width` and
    `error` are between 0 and 1.
    """
    if not 0 < half_width < 1 or not 0 < error < 1:
        raise ValueError("The half-width and the error must be between 0 and 1.")
    return ceil(log(2 / error) / (2 * float(half_width) ** 2))


def half_width(runs: int, error: Fraction) -> Fraction:
    """Return the half-width of an estimate from this number of runs, rounded up."""
    return min(Fraction(1), Fraction(ceil(sqrt(log(2 / error) / (2 * runs)) * GRID), GRID))


def _down(value: Fraction) -> Fraction:
    return Fraction(int(value * GRID), GRID)
