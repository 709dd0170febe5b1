"""From when to when each memory line is taken: from the issue of what writes it to the last read of a value in it.

A line is watched as a whole, but its bytes may be written one after another. It is free between two values when none of
its bytes that are read later has been written yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from compiler.simulator.forms import Array, Form
from compiler.simulator.hazards import Accesses, ascending, longest
from compiler.simulator.reservations import Uses

_AT_ONCE = 1 << 18  # accesses, about, that are sorted at once: a program has millions, in several columns
_TOGETHER = 1 << 17  # accesses whose bytes are looked at together


class Bytes:
    """Which bytes of a line an access touches. ``forms``: by where their lines begin in the table of rows; rows in front of
    the first are of accesses whose place data decides: they may read every byte, and overwrite none for certain."""

    def __init__(self, forms: Sequence[tuple[int, Form]], line_bytes: int, grain: int) -> None:
        self._starts = np.array([start for start, _ in forms] or [1 << 62], np.int64)
        self._forms = [form for _, form in forms]
        self._line_bytes, self._grain = line_bytes, grain
        self._masks: dict[int, Array] = {}

    def of(self, rows: Array) -> Array:
        """By access, and unit of ``grain`` bytes in a line, whether it is touched."""
        found = np.ones((rows.size, self._line_bytes // self._grain), np.bool_)
        for which, index, there in self._by_form(rows):
            found[there] = self._mask(which)[index]
        return found

    def cover(self, rows: Array) -> Array:
        """By access whether it touches all bytes of its line, and certainly."""
        found = np.zeros(rows.size, np.bool_)
        for which, index, there in self._by_form(rows):
            found[there] = np.asarray(self._mask(which).all(1))[index]
        return found

    def _by_form(self, rows: Array) -> Iterator[tuple[int, Array, Array]]:
        number = np.searchsorted(self._starts, rows, "right") - 1
        for which in np.flatnonzero(np.bincount(number[number >= 0])).tolist():
            there = np.flatnonzero(number == which)
            yield which, rows[there] - self._starts[which], there

    def _mask(self, which: int) -> Array:
        """By line of a form and unit of bytes whether it has an element there."""
        form = self._forms[which]
        found = self._masks.get(id(form))
        if found is None:
            per_line = self._line_bytes // self._grain
            found = np.zeros((form.high - form.low) * per_line, np.bool_)
            at = form.addresses() if form.inside is None else form.addresses()[form.inside]
            first = at.ravel() // self._grain - form.low * per_line
            for n in range(form.dtype.itemsize // self._grain):
                found[first + n] = True
            found = self._masks[id(form)] = found.reshape(-1, per_line)[form.lines - form.low]
        return found


class _Sorted(NamedTuple):
    """Accesses by line, in the order of the program; ``until``: when the line's accesses so far have ended."""

    line: Array
    write: Array
    issue: Array
    until: Array
    row: Array


def occupied(found: Accesses, cycle: Array, touched: Bytes) -> Uses:
    """The uses of memory lines by one inference, from their first write on. ``cycle``: by instruction its issue."""
    if not found.line.size:
        return Uses(*[np.empty(0, np.int64)] * 3)
    low, high = int(found.line.min()), int(found.line.max()) + 1
    step = -(-(high - low) // -(-found.line.size // _AT_ONCE))
    parts = [_part(found, (begin, begin + step), cycle, touched) for begin in range(low, high, step)]
    return Uses(*map(np.concatenate, zip(*parts, strict=True)))


def _part(found: Accesses, lines: tuple[int, int], cycle: Array, touched: Bytes) -> Uses:
    """The uses of the lines from the first to before the last."""
    chosen = (lines[0] <= found.line) & (found.line < lines[1])
    if not chosen.any():
        return Uses(*[np.empty(0, np.int64)] * 3)
    if not chosen.all():
        found = Accesses(*(column[chosen] for column in found))
    order = ascending(found.line - int(found.line.min()))
    place = found.place[order]
    write, issue = (place & 1).astype(np.bool_), cycle[place >> 1]
    line, end, row = found.line[order], found.end[order], found.row[order]
    new = np.append(True, line[1:] != line[:-1])
    starts = np.flatnonzero(new)
    until = longest(end, np.cumsum(new) - 1, starts, np.zeros(starts.size, np.int64))
    found_ = _Sorted(line, write, issue, until, row)
    begins = new | _free(found_, new, touched)
    first = np.flatnonzero(begins)
    return Uses(line[first], found_.issue[first], np.maximum.reduceat(end, first))


def _free(found: _Sorted, new: Array, touched: Bytes) -> Array:
    """By access whether the line was free before it."""
    gap = ~new & found.write & (np.append(0, found.until[:-1]) <= found.issue)
    at = np.flatnonzero(gap)
    unclear = at[~touched.cover(found.row[at])]
    if not unclear.size:
        return gap
    number = np.cumsum(new) - 1
    asked = np.zeros(int(number[-1]) + 1, np.bool_)
    asked[number[unclear]] = True
    members = np.flatnonzero(asked[number])
    for part in _parts(number[members]):
        mine = members[part]
        gap[mine] &= ~_alive(found, number[mine], mine, touched)
    return gap


def _parts(number: Array) -> Iterator[slice]:
    """Whole lines, about as many accesses at a time as memory allows. ``number``: of the line, ascending."""
    start = 0
    while start < number.size:
        stop = int(np.searchsorted(number, number[min(start + _TOGETHER, number.size) - 1], "right"))
        yield slice(start, stop)
        start = stop


def _alive(found: _Sorted, number: Array, members: Array, touched: Bytes) -> Array:
    """For each access, whether its line holds a byte that was written earlier and is read before it is written again.

    From the last access of each line backwards: of every byte, whether what touches it next reads it.
    """
    masks, write = touched.of(found.row[members]), found.write[members]
    ends = np.flatnonzero(np.append(number[1:] != number[:-1], True))
    lengths = np.diff(np.append(-1, ends))
    written = _written(masks, write, ends - lengths + 1, lengths)
    read_next = np.zeros((ends.size, masks.shape[1]), np.bool_)
    alive = np.zeros(members.size, np.bool_)
    for back in range(int(lengths.max())):
        mine = np.flatnonzero(lengths > back)
        at = ends[mine] - back
        read_next[mine] = np.where(masks[at], ~write[at, None], read_next[mine])
        alive[at] = (read_next[mine] & written[at]).any(1)
    return alive


def _written(masks: Array, write: Array, starts: Array, lengths: Array) -> Array:
    """By access which bytes of its line were written before it; what never was, a look-up that may read it does not need."""
    found, so_far = np.zeros_like(masks), np.zeros((starts.size, masks.shape[1]), np.bool_)
    for on in range(int(lengths.max())):
        mine = np.flatnonzero(lengths > on)
        at = starts[mine] + on
        found[at] = so_far[mine]
        so_far[mine] |= masks[at] & write[at, None]
    return found
