"""The upper tail of a binomial distribution in double precision.

SciPy computes the tail if SciPy is installed. Otherwise, the tail is summed term by term, because the `takt` command
runs with NumPy alone.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma
from typing import Any

import numpy as np

HALVINGS = 48  # of the interval from 0 to 1: finer than a step of the grid of bounds


def tail(successes: int, trials: int, share: float) -> float:
    """Return the probability of at least `successes` successes in `trials` trials with success probability `share`.
    `successes` must be from 1 to `trials`.
    """
    try:
        from scipy.special import betainc  # heavy, and few processes judge
    except ImportError:
        return tail_summed(successes, trials, share)
    return float(betainc(successes, trials - successes + 1, share))


def share_at(successes: int, trials: int, error: float) -> float:
    """Return the success probability at which the tail equals `error`."""
    try:
        from scipy.special import betaincinv
    except ImportError:
        return share_halved(successes, trials, error)
    return float(betaincinv(successes, trials - successes + 1, error))


def tail_summed(successes: int, trials: int, share: float) -> float:
    """Compute the tail term by term, without SciPy."""
    if share <= 0 or share >= 1:
        return float(share >= 1)
    counts = np.arange(successes, trials + 1)
    terms = _coefficients(trials)[successes:] + counts * np.log(share) + (trials - counts) * np.log1p(-share)
    return min(1.0, float(np.exp(terms).sum()))


def share_halved(successes: int, trials: int, error: float) -> float:
    """Find, by bisection, the success probability at which the tail equals `error`."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if tail_summed(successes, trials, middle) <= error else (low, middle)
    return low


@lru_cache(maxsize=4)
def _coefficients(trials: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    logs = np.array([lgamma(i + 1) for i in range(trials + 1)])
    found: np.ndarray[Any, np.dtype[np.float64]] = logs[-1] - logs - logs[::-1]
    return found
