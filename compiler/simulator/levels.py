"""In which order alike instructions can run together: by levels, each of which needs nothing but those before it."""

from __future__ import annotations

import numpy as np

from compiler.isa.alike import Array


def levels(pairs: Array, first: int, count: int) -> Array:
    """The level of each of ``count`` instructions from ``first`` on: the longest way to it through ``pairs``, which are
    (later << 32 | earlier), ascending."""
    found = [0] * count
    later, earlier = (pairs >> 32) - first, (pairs & 0xFFFFFFFF) - first
    for after, before in zip(later.tolist(), earlier.tolist(), strict=True):
        if found[before] >= found[after]:
            found[after] = found[before] + 1
    return np.array(found, np.int64)


def groups(level: Array, sort: Array) -> list[Array]:
    """Positions of instructions of one level and one sort, level by level; those of a negative sort are left out."""
    there = np.flatnonzero(sort >= 0)
    order = there[np.lexsort((sort[there], level[there]))]
    if not order.size:
        return []
    new = (np.diff(level[order]) != 0) | (np.diff(sort[order]) != 0)
    return np.split(order, np.flatnonzero(new) + 1)
