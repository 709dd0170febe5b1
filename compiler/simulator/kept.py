"""What products keep in their planes between instructions: weights and sums, many at a time, by who made them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from compiler.isa.alike import Array


class Kept:
    """Arrays of matrices that stay until every instruction that uses one has taken it.

    ``uses``: by position in the program how many will take what an instruction made.
    """

    def __init__(self, uses: Array) -> None:
        self._uses = uses
        self._batch, self._at = (np.zeros(len(uses), np.int64) for _ in range(2))
        self._arrays: dict[int, Array] = {}
        self._open: dict[int, int] = {}  # by batch, how often its matrices will still be taken
        self._made = 0

    def put(self, makers: Array, array: Array, at: Array | None = None) -> None:
        """Keep the matrices ``array[at]`` (all of them, unless given) for ``makers``."""
        count = int(self._uses[makers].sum())
        if not count:
            return
        self._batch[makers] = self._made
        self._at[makers] = np.arange(len(makers)) if at is None else at
        self._arrays[self._made], self._open[self._made] = array, count
        self._made += 1

    def take(self, makers: Array) -> Array:
        """What ``makers`` made, as (makers, rows, columns): a part of one array where it is one, by strides of 0 where it is the
        same."""
        batch, at = self._batch[makers], self._at[makers]
        array = self._arrays[int(batch[0])]
        steps = np.diff(batch << 32 | at)
        if not steps.any():
            found = np.broadcast_to(array[at[0]], (len(makers), *array.shape[1:]))
        elif (steps == 1).all():
            found = array[at[0] : at[0] + len(makers)]
        else:
            found = np.empty((len(makers), *array.shape[1:]), array.dtype)
            for n, (number, place) in enumerate(zip(batch.tolist(), at.tolist(), strict=True)):
                found[n] = self._arrays[number][place]
        self._close(batch)
        return found

    def _close(self, batch: Array) -> None:
        for number, count in Counter(batch.tolist()).items():
            self._open[number] -= count
            if not self._open[number]:
                del self._arrays[number], self._open[number]
