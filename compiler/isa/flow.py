"""The order in which an instruction works through its operands, and so when it touches which memory line.

An instruction takes its items (rows, or points) one after another, evenly over its beats. A line is read from the first
item that lies in it to the last, and what is written there can be read behind the last item: the next instruction may
follow line by line while this one still runs. Source: chaining, R. M. Russell, "The CRAY-1 computer system" (1978).

Scheduler and simulator take these numbers from here; nothing else says when a line is read or written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from compiler.isa.geometry import Range, simplify
from compiler.isa.stream import Nest, Stream, points

Array = np.ndarray[Any, Any]

WHOLE, ROWS, POINTS = "whole", "rows", "points"  # an operand is needed as a whole, by its rows, or by rows and columns
_FAR = 1 << 62


class Pace(NamedTuple):
    """``items`` of ``group`` rows (or points) each, worked through evenly in ``beats`` cycles."""

    items: int
    group: int
    beats: int

    def begin(self, first: Array) -> Array:
        """Cycles from the start until a row (or point) is reached."""
        return first // self.group * self.beats // self.items

    def end(self, last: Array) -> Array:
        """Cycles from the start until a row (or point) is done."""
        return -(-(last // self.group + 1) * self.beats // self.items)


class Touched(NamedTuple):
    """Lines in ascending order, and per line the first and the last row (or point) that lies in it."""

    lines: Array
    first: Array
    last: Array


class Runs(NamedTuple):
    """The elements of a piece as runs: from address ``at`` on ``steps`` of ``step`` bytes, ``wide`` bytes at each.

    ``number``: of the row (or point) at the first step; each step is the next one.
    """

    at: Array
    number: Array
    steps: Array
    step: int
    wide: Array
    more: int = 0  # what the last visit of an element lies behind its first, where all rows repeat it

    @property
    def bounds(self) -> tuple[int, int]:
        """First byte and end of everything; both 0 when there is nothing."""
        if not self.at.size:
            return 0, 0
        return int(self.at.min()), int((self.at + (self.steps - 1) * self.step + self.wide).max())


def offsets(nest: Nest, start: int, count: int) -> Array:
    """Byte offset of each point ``start`` ... ``start + count - 1`` of a nest."""
    return _short(nest, start, count) if count <= _SHORT else _offsets(nest, start, count)


_SHORT = 1 << 12  # points of ranges that are remembered: longer ones would take more memory than they save time


@lru_cache(maxsize=1 << 14)
def _short(nest: Nest, start: int, count: int) -> Array:
    return _offsets(nest, start, count)


def _offsets(nest: Nest, start: int, count: int) -> Array:
    inner = points(nest[1:])
    if 1 < inner <= count:  # whole steps of the outermost loop, and less than two steps more
        first, last = start // inner, (start + count - 1) // inner
        steps = np.arange(first, last + 1) % nest[0].extent * nest[0].stride
        return (steps[:, None] + offsets(nest[1:], 0, inner)).reshape(-1)[start - first * inner :][:count]
    index = np.arange(start, start + count)
    total = np.zeros(count, np.int64)
    for extent, stride in reversed(nest):
        index, coordinate = np.divmod(index, extent)
        total += coordinate * stride
    return total


def runs(stream: Stream, g0: int, rows: Range, inner: Range, line_bytes: int, kind: str) -> Runs:
    """The runs of a piece in the order of ``kind``; ``WHOLE`` counts like ``ROWS``."""
    size = stream.size
    if stream.guards:
        return _guarded(stream, g0, rows, inner, kind)
    base = stream.base + int(offsets(stream.g0, g0 if stream.g0 else 0, 1)[0])
    if kind != POINTS:
        at, index, count, step = _along(simplify(stream.g1), rows, line_bytes)
        starts, ends = _together(stream.g2, inner if stream.g2 else (0, 1), size)
        return _crossed(at + base, index, count, step, starts, ends - starts)
    columns = points(stream.g2)
    if not stream.g2 or (stream.g1 and inner == (0, columns)):
        each = 1 if stream.g2 else inner[1]
        nest, piece = simplify(stream.g1 + stream.g2), (rows[0] * columns, rows[1] * columns)
        at, index, count, step = _along(nest, piece, line_bytes)
        if each == 1:
            return Runs(at + base, index, count, step, np.array([size]))
        at = (at[:, None] + np.arange(int(count.max())) * step)[np.arange(int(count.max())) < count[:, None]] + base
        return Runs(at, np.arange(at.size) * each, np.full(at.size, each), 0, np.array([size]))
    at, index, count, step = _along(simplify(stream.g2), inner, line_bytes)
    first = offsets(stream.g1, *rows) if stream.g1 else np.zeros(1, np.int64)
    index = (np.arange(len(first)) * inner[1])[:, None] + index
    more = 0 if stream.g1 else (rows[1] - 1) * inner[1]
    count = np.broadcast_to(count, index.shape).ravel()
    return Runs((first[:, None] + at).ravel() + base, index.ravel(), count, step, np.array([size]), more)


def _along(nest: Nest, piece: Range, line_bytes: int) -> tuple[Array, Array, Array, int]:
    """Runs of a range of a nest along its innermost loop: first offsets, first indices, steps, bytes per step.

    Without loops all points are one element, again and again.
    """
    start, count = piece
    if not nest:
        return np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([count]), 0
    extent, step = nest[-1]
    if not 0 <= step <= line_bytes:
        return offsets(nest, start, count), np.arange(count), np.ones(count, np.int64), 0
    first, last = start // extent, (start + count - 1) // extent
    begin = np.maximum(np.arange(first, last + 1) * extent, start)
    end = np.minimum(np.arange(first + 1, last + 2) * extent, start + count)
    at = offsets(nest[:-1], first, last - first + 1) + begin % extent * step
    return at, begin - start, end - begin, step


@lru_cache(maxsize=1 << 12)
def _together(nest: Nest, piece: Range, size: int) -> tuple[Array, Array]:
    """Contiguous runs in the byte offsets of a piece of a nest: first bytes and ends."""
    ordered = offsets(nest, *piece)
    if (np.diff(ordered) < 0).any():
        ordered = np.sort(ordered)
    breaks = np.flatnonzero(np.diff(ordered) > size)
    starts = ordered[np.concatenate(([0], breaks + 1))]
    ends = ordered[np.concatenate((breaks, [len(ordered) - 1]))] + size
    return starts, ends


def _crossed(at: Array, index: Array, count: Array, step: int, starts: Array, wide: Array) -> Runs:
    """Every run at every start."""
    if len(starts) == 1:
        return Runs(at + starts[0], index, count, step, wide)
    times = len(starts)
    return Runs(
        (at[:, None] + starts).ravel(), np.repeat(index, times), np.repeat(count, times), step, np.tile(wide, len(at))
    )


def _guarded(stream: Stream, g0: int, rows: Range, inner: Range, kind: str) -> Runs:
    """The runs of a piece without what guards exclude: row by row, along the inner loops that no guard asks for."""
    more = 0 if stream.g1 else rows[1] - 1
    if kind == POINTS:
        more = more * inner[1] + (0 if stream.g2 else inner[1] - 1)
    width = inner[1]
    rows, inner = rows if stream.g1 else (0, 1), inner if stream.g2 else (0, 1)
    inside, at, wide, index = _columns(stream, g0, rows, inner)
    first = offsets(stream.g1, *rows) + stream.base + int(offsets(stream.g0, g0 if stream.g0 else 0, 1)[0])
    row, column = np.nonzero(np.broadcast_to(inside, (len(first), len(at))))
    places = first[row] + at[column]
    one = np.ones(len(places), np.int64)
    if kind != POINTS:
        return Runs(places, row, one, 0, wide[column], more)
    steps = wide[column] // stream.size
    return Runs(places, row * width + index[column], steps, stream.size, np.array([stream.size]), more)


def _columns(stream: Stream, g0: int, rows: Range, inner: Range) -> tuple[Array, Array, Array, Array]:
    """Runs of the inner loops under guards: which are inside (by row), first byte, bytes, first point."""
    a, b = len(stream.g0), len(stream.g0) + len(stream.g1)
    free = len(stream.g2)
    while free and not any(guard.coefficients[b + free - 1] for guard in stream.guards):
        free -= 1
    tail = simplify(stream.g2[free:])
    if len(tail) > 1 or (tail and tail[0].stride != stream.size):
        tail, free = (), len(stream.g2)
    unit = points(tail)
    first, last = inner[0] // unit, (inner[0] + inner[1] - 1) // unit
    begin = np.maximum(np.arange(first, last + 1) * unit, inner[0])
    end = np.minimum(np.arange(first + 1, last + 2) * unit, inner[0] + inner[1])
    at = offsets(stream.g2[:free], first, last - first + 1) + begin % unit * stream.size
    inside: Any = np.ones((1, 1), np.bool_)
    for guard in stream.guards:
        value: Any = guard.offset
        for nest, low, piece, shape in (
            (stream.g0, 0, (g0 if stream.g0 else 0, 1), (1, 1)),
            (stream.g1, a, rows, (-1, 1)),
            (stream.g2[:free], b, (first, last - first + 1), (1, -1)),
        ):
            steps = guard.coefficients[low : low + len(nest)]
            if any(steps):
                moved = tuple(loop._replace(stride=c) for loop, c in zip(nest, steps, strict=True))
                value = value + offsets(moved, *piece).reshape(shape)
        inside = inside & (value >= 0) & (value < guard.extent)
    return inside, at, (end - begin) * stream.size, begin - inner[0]


def touched(found: Runs, line_bytes: int) -> Touched:
    """Which lines runs lie in, and from which row (or point) to which."""
    if not found.at.size:
        return Touched(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    low_line = found.at // line_bytes
    count = (found.at + (found.steps - 1) * found.step + found.wide - 1) // line_bytes - low_line + 1
    if len(found.at) == 1:
        lines = np.arange(low_line[0], low_line[0] + count[0])
        first, last = _visits(found, slice(None), lines, line_bytes)
        return Touched(lines, first, last + found.more)
    which: Array | slice = slice(None)
    lines = low_line
    if int(count.max()) > 1:  # a run of several lines counts once in each
        which = np.repeat(np.arange(len(count)), count)
        before = np.cumsum(count) - count
        lines = low_line[which] + np.arange(len(which)) - before[which]
    first, last = _visits(found, which, lines, line_bytes)
    there, place = _numbered(lines)
    begin, end = np.full(len(there), _FAR), np.full(len(there), -1)
    np.minimum.at(begin, place, first)
    np.maximum.at(end, place, last)
    visited = np.flatnonzero(end >= 0)
    return Touched(there[visited], begin[visited], end[visited] + found.more)


def _numbered(lines: Array) -> tuple[Array, Array]:
    """Ascending lines with all that occur among them, and the position of each of ``lines``."""
    least, most = int(lines.min()), int(lines.max())
    if most - least > 1 << 20:  # far apart, as only damaged programs have them: no room is set aside for those between
        there, place = np.unique(lines, return_inverse=True)
        return there, place.reshape(lines.shape)
    return np.arange(least, most + 1), lines - least


def _visits(found: Runs, which: Array | slice, lines: Array, line_bytes: int) -> tuple[Array, Array]:
    """First and last row (or point) of run ``which`` in each of ``lines``."""
    index, count = found.number[which], found.steps[which]
    if not found.step:
        return np.broadcast_to(index, lines.shape), np.broadcast_to(index + count - 1, lines.shape)
    wide = found.wide if len(found.wide) == 1 else found.wide[which]
    ahead = lines * line_bytes - found.at[which]
    first = np.maximum((ahead - wide) // found.step + 1, 0)
    last = np.minimum((ahead + line_bytes - 1) // found.step, count - 1)
    return index + first, index + last
