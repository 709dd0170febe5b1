"""Cascades and ensembles: several programs that together produce one answer per item. Pure functions.

In a cascade, a cheap program runs on every item, and each further program runs on the items of which the previous one
was unsure. In an ensemble, three programs run on every item; an answer on which two agree counts, otherwise the first
program's answer.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from apps.planner.metrics import best_of

Array = np.ndarray[Any, np.dtype[Any]]


def confidences(output: Array) -> Array:
    """Return the largest value of each item's output, in the shape [items]; it is a probability if the output holds
    probabilities.
    """
    largest: Array = output.reshape(len(output), -1).max(axis=1)
    return largest


def unsure_items(output: Array, threshold: Decimal) -> Array:
    """Return the items whose confidence is below the threshold, the lowest confidence first. NaN counts as the lowest.

    Confidences are rounded to six places, as in the evaluation by which the threshold was chosen.
    """
    sure = np.nan_to_num(confidences(output).astype(np.float64).round(6), nan=-np.inf)
    order = np.argsort(sure, kind="stable")
    unsure: Array = order[sure[order] < float(threshold)]
    return unsure


def answers(output: Array) -> Array:
    """Return the class with the highest score for each item, in the shape [items]; -1 if a score is not a number, as in
    evaluations.
    """
    found: Array = best_of(output.reshape(len(output), -1))
    return found


def elected(first: Array, second: Array, third: Array) -> tuple[Array, Array]:
    """Return two arrays of the shape [items]: whether the other two programs outvote the first, and how many programs
    gave the answer that counts.
    """
    outvoted: Array = (second == third) & (first != second)
    votes = np.where(outvoted, 2, 1 + (first == second).astype(np.uint8) + (first == third).astype(np.uint8))
    return outvoted, votes.astype(np.uint8)
