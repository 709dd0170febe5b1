"""Cascades and ensembles: several programs that together produce one answer per item. Pure functions.

In a cascade, a cheap program runs on every item. Each further program runs on the items of which the previous program
was unsure. In an ensemble, three programs run on every item, and the majority answer counts. If all three answers
differ, the first program's answer counts.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from apps.planner.metrics import best_of

Array = np.ndarray[Any, np.dtype[Any]]


def confidences(output: Array) -> Array:
    """Return the confidence for each item: the largest value in the item's output."""
    largest: Array = output.reshape(len(output), -1).max(axis=1)
    return largest


def unsure_items(output: Array, threshold: Decimal) -> Array:
    """Return the items whose confidence is below the threshold, in ascending order of confidence. NaN counts as the
    lowest confidence.
    """
    sure = np.nan_to_num(confidences(output).astype(np.float64).round(6), nan=-np.inf)
    order = np.argsort(sure, kind="stable")
    unsure: Array = order[sure[order] < float(threshold)]
    return unsure


def answers(output: Array) -> Array:
    """Return the class with the highest score for each item; -1 if any score of the item is not a number."""
    found: Array = best_of(output.reshape(len(output), -1))
    return found


def elected(first: Array, second: Array, third: Array) -> tuple[Array, Array]:
    """Return, for each item, whether the second and third programs outvote the first, and the number of votes for the
    final answer.
    """
    outvoted: Array = (second == third) & (first != second)
    votes = np.where(outvoted, 2, 1 + (first == second).astype(np.uint8) + (first == third).astype(np.uint8))
    return outvoted, votes.astype(np.uint8)
