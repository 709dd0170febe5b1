"""Exact (Clopper-Pearson) confidence bounds of a proportion.

A bound is a multiple of 1/10^6, rounded away from the observed proportion. Exact integers are used where double
precision cannot decide.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from apps.registry import binomial

GRID = 1_000_000
# Relative distance of a tail from the error at which doubles decide: a thousand times what they lose with a million trials.
CLEAR = 1e-7


def lower_bound(successes: int, trials: int, error: Fraction = Fraction(1, 20)) -> Fraction:
    """Return the one-sided lower bound. The true proportion is lower with probability at most `error`.

    The bound is 0 if there are no successes. Raises ValueError for impossible counts.
    """
    _check(successes, trials, error)
    return Fraction(_lower(successes, trials, error), GRID)


@lru_cache(maxsize=100_000)
def _lower(successes: int, trials: int, error: Fraction) -> int:
    if successes == 0:
        return 0
    found = min(int(binomial.share_at(successes, trials, float(error)) * GRID), GRID - 1)
    while not _holds(successes, trials, found, error):
        found -= 1
    while _holds(successes, trials, found + 1, error):
        found += 1
    return found


def _holds(successes: int, trials: int, p: int, error: Fraction) -> bool:
    tail, most = binomial.tail(successes, trials, p / GRID), float(error)
    if abs(tail - most) > CLEAR * most:
        return tail < most
    return _tail_at_most(successes, trials, p, error)


def successes_needed(share: Fraction, trials: int, error: Fraction = Fraction(1, 20)) -> int | None:
    """Return the smallest number of successes whose lower bound is at least `share`; None if no number is large enough."""
    _check(trials, trials, error)
    if lower_bound(trials, trials, error) < share:
        return None
    low, high = -1, trials  # `high` is enough, `low` is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if lower_bound(middle, trials, error) >= share else (middle, high)
    return high


def upper_bound(successes: int, trials: int, error: Fraction = Fraction(1, 20)) -> Fraction:
    """Return the one-sided upper bound. The true proportion is higher with probability at most `error`."""
    return 1 - lower_bound(trials - successes, trials, error)


def _tail_at_most(successes: int, trials: int, p: int, error: Fraction) -> bool:
    q = GRID - p
    whole: int = GRID**trials
    if trials - successes < successes:
        upper = _first_terms(trials, trials - successes + 1, q, p)
    else:
        upper = whole - _first_terms(trials, successes, p, q)
    return upper * error.denominator <= error.numerator * whole


def _first_terms(trials: int, count: int, p: int, q: int) -> int:
    term: int = q**trials
    total = 0
    for i in range(count):
        total += term
        term = term * (trials - i) * p // ((i + 1) * q)
    return total


def _check(successes: int, trials: int, error: Fraction) -> None:
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} of {trials} is not a share: it needs 0 <= successes <= trials and a trial.")
    if not 0 < error < 1:
        raise ValueError(f"The error probability {error} must lie between 0 and 1.")
