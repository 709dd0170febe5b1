"""Reductions as a fixed tree over adjacent pairs, so that the order of float additions is part of the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.numerics.exact import Array
from compiler.numerics.scalar import apply

# Reducer -> the scalar operator that joins two values, its code in binaries.
# ``chain`` is the sum with elements ascending from zero, as in ``compiler.numerics.contract``; all others are trees.
REDUCERS: dict[str, str] = {
    "sum": "add",
    "max": "max",
    "min": "min",
    "prod": "mul",
    "any": "or",
    "all": "and",
    "chain": "add",
}
REDUCER_CODES: dict[str, int] = {"sum": 1, "max": 2, "min": 3, "prod": 4, "any": 5, "all": 6, "chain": 7}


def identity(op: str, dtype: np.dtype[Any]) -> int | float | bool:
    """The value that changes nothing: what an empty reduction gives and what pads to a power of two."""
    if op in ("any", "all"):
        return op == "all"
    if op in ("sum", "chain", "prod"):
        return 1 if op == "prod" else 0
    if dtype.kind == "f":
        return -np.inf if op == "max" else np.inf
    limits = np.iinfo(dtype)
    return int(limits.min if op == "max" else limits.max)


def reduce(op: str, array: Array, axis: int = -1) -> Array:
    """``array`` without ``axis``: pad with the identity to a power of two, then ``x = op(x[0::2], x[1::2])`` until one is left
    (``chain``: one after another, ascending, from zero).

    2**m consecutive elements that start at a multiple of 2**m are a subtree. An empty axis gives the identity.
    """
    join = REDUCERS[op]
    x = np.moveaxis(array, axis, 0)
    neutral = np.asarray(identity(op, array.dtype), array.dtype)
    if x.shape[0] == 0:
        return np.broadcast_to(neutral, x.shape[1:]).copy()
    if op == "chain":
        total = np.broadcast_to(neutral, x.shape[1:])
        for element in x:
            total = apply(join, (total, element), array.dtype)
        return np.array(total, order="C")
    while x.shape[0] > 1:
        pairs = apply(join, (x[0:-1:2], x[1::2]), array.dtype)
        x = np.concatenate((pairs, apply(join, (x[-1:], neutral), array.dtype))) if x.shape[0] % 2 else pairs
    return np.array(x[0], order="C")
