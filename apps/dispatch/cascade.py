"""A cascade: a cheap program looks at every item, a dearer one at those that the first was unsure about (G10). Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

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
