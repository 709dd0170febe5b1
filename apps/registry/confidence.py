"""Exact (Clopper-Pearson) confidence bounds of a share, in whole numbers alone. Pure: no Django, no floats.

A bound is a multiple of 1/10^6, rounded away from the observed share, so that it holds as it is printed.
"""

from __future__ import annotations

from fractions import Fraction

GRID = 1_000_000


def lower_bound(successes: int, trials: int, error: Fraction = Fraction(1, 20)) -> Fraction:
    """The largest grid share p with P(at least `successes` of `trials` | p) <= error; 0 when there was no success.

    One-sided: the true share lies below it with probability at most `error`. Raises ValueError for impossible counts.
    """
    _check(successes, trials, error)
    low, high = 0, GRID  # the tail grows with p; invariant: low holds, high does not
    if successes == 0:
        return Fraction(0)
    while high - low > 1:
        middle = (low + high) // 2
        if _tail_at_most(successes, trials, middle, error):
            low = middle
        else:
            high = middle
    return Fraction(low, GRID)


def upper_bound(successes: int, trials: int, error: Fraction = Fraction(1, 20)) -> Fraction:
    """The mirror image: the true share lies above it with probability at most `error`."""
    return 1 - lower_bound(trials - successes, trials, error)


def _tail_at_most(successes: int, trials: int, p: int, error: Fraction) -> bool:
    """Whether P(X >= successes) <= error for X binomial with share p/10^6; the shorter tail is summed."""
    q = GRID - p
    whole: int = GRID**trials
    if trials - successes < successes:
        upper = _first_terms(trials, trials - successes + 1, q, p)
    else:
        upper = whole - _first_terms(trials, successes, p, q)
    return upper * error.denominator <= error.numerator * whole


def _first_terms(trials: int, count: int, p: int, q: int) -> int:
    """The sum of C(trials, i) p^i q^(trials - i) over i < count; each term comes exactly from the one before."""
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
        raise ValueError(f"The error {error} must lie between 0 and 1.")
