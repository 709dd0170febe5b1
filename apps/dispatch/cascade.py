"""Programs that work together (G10). Pure.

A cascade: a cheap program looks at every item, each further one at those that the one before was unsure about. An ensemble:
three programs look at every item, and the answer that two of them agree on counts, else that of the first.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from apps.planner.metrics import best_of

Array = np.ndarray[Any, np.dtype[Any]]


def confidences(output: Array) -> Array:
    """The largest value of each item's output, [items]: its probability when the output is one."""
    largest: Array = output.reshape(len(output), -1).max(axis=1)
    return largest


def unsure_items(output: Array, threshold: Decimal) -> Array:
    """Items whose confidence is below the threshold, the least sure first; NaN is as unsure as can be.

    Confidences are rounded to six places, as they were in the evaluation on which the threshold was chosen and judged.
    """
    sure = np.nan_to_num(confidences(output).astype(np.float64).round(6), nan=-np.inf)
    order = np.argsort(sure, kind="stable")
    unsure: Array = order[sure[order] < float(threshold)]
    return unsure


def answers(output: Array) -> Array:
    """Each item's class with the highest score, [items], as evaluations count it: -1 where a score is not a number."""
    found: Array = best_of(output.reshape(len(output), -1))
    return found


def elected(first: Array, second: Array, third: Array) -> tuple[Array, Array]:
    """(items that the other two outvote the first on, how many programs gave the answer that counts), each [items]."""
    outvoted: Array = (second == third) & (first != second)
    votes = np.where(outvoted, 2, 1 + (first == second).astype(np.uint8) + (first == third).astype(np.uint8))
    return outvoted, votes.astype(np.uint8)
