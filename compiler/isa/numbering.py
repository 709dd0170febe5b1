"""Rows of whole numbers told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_WIDE: Final = 1 << 40  # codes up to this are combined with another column as they are


def numbered(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Rows of a table with whole numbers in ``columns`` (each by row, or one number for all), numbered by what they hold: the
    first row of each number, and the number of every row."""
    code = np.zeros(max(map(len, columns)), np.int64)
    most = 1
    for column in columns:
        if len(column) == 1:
            continue
        low, high = int(column.min()), int(column.max())
        if low != high:
            if most * (high - low + 1) > _WIDE:
                code, most = _dense(code)
                column, high = _dense(column)
                low, high = 0, high - 1
            code = code * (high - low + 1) + (column - low)
            most *= high - low + 1
    if most == 1:
        return np.zeros(1, np.int64), code
    if most > 4 * len(code) + 64:
        code, most = _dense(code)
    first = np.full(most, -1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    there = np.flatnonzero(first >= 0)
    number = np.empty(most, np.int64)
    number[there] = np.arange(len(there))
    return first[there], number[code]


def _dense(code: Array) -> tuple[Array, int]:
    """Whole numbers by their place among all that occur, and how many those are. (``np.unique`` goes through a hash table,
    and imports what nothing else here needs.)"""
    order = np.argsort(code)
    ordered = code[order]
    found = np.empty(len(code), np.int64)
    found[order] = np.cumsum(np.append(False, ordered[1:] != ordered[:-1]))
    return found, int(found[order[-1]]) + 1
