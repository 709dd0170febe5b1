"""Which lines a program's instructions work on and when, for any part of it, without an object for each piece."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from compiler.isa.alike import Array
from compiler.isa.numbering import numbered
from compiler.simulator.forms import Form
from compiler.simulator.hazards import Accesses
from compiler.simulator.placing import Crowd, Placed, Placing

_NONE: Final[Array] = np.empty(0, np.int64)


class _Pieces(NamedTuple):
    """Pieces by the accesses that they make: ``size`` lines of the table from ``first`` on, and what is added to those."""

    place: Array
    line: Array
    cycle: Array
    first: Array
    size: Array


class Watch:
    """All pieces that lie where something may be written, in the order of the program.

    A table has the lines of each form, and when the work in them begins and ends, once for all pieces of that form and of
    one timing.
    """

    def __init__(self, placing: Placing, watched: Sequence[tuple[Crowd, Sequence[Placed]]]) -> None:
        self._placing = placing
        self.forms: list[tuple[int, Form]] = []  # by where their lines begin in the table
        self._table = [(_NONE, _NONE, _NONE)]
        self._size = 0
        found = [self._pieces(crowd, operand) for crowd, operands in watched for operand in operands]
        columns = [np.concatenate(column) for column in zip(_Pieces(*[_NONE] * 5), *found, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        self._all = _Pieces(*(column[order] for column in columns))
        self._lines, self._begin, self._end = (np.concatenate(column) for column in zip(*self._table, strict=True))

    def _pieces(self, crowd: Crowd, operand: Placed) -> _Pieces:
        """One operand of a kind."""
        firsts, which = numbered([operand.which, crowd.timing])
        starts, counts = [], []
        for n in firsts.tolist():
            form = operand.forms[operand.which[n]]
            begin, end = self._placing.span(crowd, operand, form, crowd.timings[crowd.timing[n]])
            lines = form.lines
            self.forms.append((self._size, form))
            self._table.append((lines, np.broadcast_to(begin, lines.shape), np.broadcast_to(end, lines.shape)))
            starts.append(self._size)
            counts.append(lines.size)
            self._size += lines.size
        members = crowd.kind.members
        return _Pieces(
            members * 2 + operand.access.write,
            operand.line,
            crowd.cycle,
            np.array(starts)[which],
            np.array(counts)[which],
        )

    def stretches(self, count: int, most: int) -> list[tuple[int, int]]:
        """The program of ``count`` instructions in parts of about ``most`` accesses to lines."""
        lines = np.bincount(self._all.place >> 1, self._all.size, count).astype(np.int64)
        part = np.cumsum(lines) // most
        starts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(lines)]
        return [(a, b) for a, b in pairwise(starts) if a < b]

    def accesses(self, start: int, stop: int) -> Accesses:
        """Those of the instructions from ``start`` to ``stop``, exclusive, in the order of the program."""
        low, high = np.searchsorted(self._all.place, (2 * start, 2 * stop)).tolist()
        place, line, cycle, first, size = (column[low:high] for column in self._all)
        behind = first - (np.cumsum(size) - size)
        at = np.arange(int(size.sum())) + np.repeat(behind, size)
        cycle = np.repeat(cycle, size)
        return Accesses(
            np.repeat(line, size) + self._lines[at],
            np.repeat(place, size),
            cycle + self._begin[at],
            cycle + self._end[at],
            at,
        )
