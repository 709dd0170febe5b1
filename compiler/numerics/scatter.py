"""Writing to places that are data, one after another: with repeated places the order is part of the definition."""

from __future__ import annotations

import numpy as np

from compiler.numerics.exact import Array
from compiler.numerics.reduce import REDUCERS
from compiler.numerics.scalar import apply


def scatter(target: Array, places: Array, values: Array, reducer: str | None) -> None:
    """``target[places[i]] = target[places[i]] reducer values[i]`` for i ascending, in place; without reducer the value itself.

    ``target`` is flat; ``places`` (inside it) and ``values`` are of one shape. Float sums round after every addition.
    """
    flat, new = places.reshape(-1), values.reshape(-1)
    if flat.size == 0:
        return
    order = np.argsort(flat, kind="stable")
    sorted_places = flat[order]
    first = np.concatenate(([True], sorted_places[1:] != sorted_places[:-1]))
    begin = np.flatnonzero(first)
    if reducer is None:  # of equal places the last one stays
        last = np.concatenate((begin[1:], [flat.size])) - 1
        target[sorted_places[last]] = new[order[last]]
        return
    turn = np.arange(flat.size) - np.repeat(begin, np.diff(np.concatenate((begin, [flat.size]))))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    for start, end in zip(np.concatenate(([0], ends[:-1])), ends, strict=True):
        chosen = order[by_turn[start:end]]
        here = flat[chosen]
        target[here] = apply(REDUCERS[reducer], (target[here], new[chosen]), target.dtype)
