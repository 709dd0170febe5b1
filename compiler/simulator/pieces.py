"""Pieces of streams as arrays: which bytes they are, which lines, and how to read and write them at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.isa import Nest, Stream, flow
from compiler.isa.flow import offsets
from compiler.isa.geometry import Range
from compiler.isa.lines import Common, placed
from compiler.simulator.forms import Array, Form

Lines = slice | Array
_KEPT = 1 << 12  # elements of pieces whose index is kept: those of all pieces would take more memory than the program

# By bytes of an element: the whole number as wide, and the largest one.
BITS = {size: (np.dtype(f"u{size}"), (1 << 8 * size) - 1) for size in (1, 2, 4, 8)}


class OutsideError(Exception):
    """A piece has elements where it may not: below 0, or at ``limit`` and beyond."""


def coordinates(nest: Nest, loop: int, start: int, count: int) -> Array:
    """Coordinate of one loop at each point of a range."""
    return offsets(tuple(item._replace(stride=int(n == loop)) for n, item in enumerate(nest)), start, count)


def spread(values: Array, shape: tuple[int, int]) -> Array:
    """``values`` in a shape that they broadcast to."""
    return values if values.shape == shape else np.broadcast_to(values, shape)


class Piece:
    """The elements that one instruction takes from or puts into a stream, as an array of shape (rows, inner).

    Where they lie is computed once and kept; the values are read each time. ``limit``: first address beyond memory.
    ``forms``: the common forms found so far, which gains that of this piece.
    """

    def __init__(
        self,
        stream: Stream,
        g0: int,
        rows: Range,
        inner: Range,
        line_bytes: int,
        limit: int,
        forms: dict[Common, Form] | None = None,
    ) -> None:
        common, line = placed(stream, g0, rows, inner, line_bytes)
        form = None if forms is None else forms.get(common)
        if form is None:
            form = Form(common, line_bytes)
            if forms is not None:
                forms[common] = form
        self.stream = stream
        self.form = form
        self._given = (rows, inner)
        self.dtype, self.shape, self.inside = form.dtype, form.shape, form.inside
        self.rows = rows if stream.g1 else (0, 1)
        self.inner = inner if stream.g2 else (0, 1)
        self.g0 = g0 if stream.g0 else 0
        self.line_bytes = line_bytes
        self.limit = limit
        self.elements = form.elements
        self.nbytes = form.elements * form.dtype.itemsize
        self._at = line * line_bytes
        self._index: Array | None = None
        self.lines = self._lines(line)
        self.moves = False  # it lies in the arena, and so elsewhere for each copy of it
        self.arrived: set[int] = set()  # copies in which every byte has been seen to be defined, which it stays
        self.marked: set[int] = set()  # copies in which every byte has been marked as defined

    @property
    def origin(self) -> int:
        """Address of the first point of all rows and inner loops."""
        return self.stream.base + int(offsets(self.stream.g0, self.g0, 1)[0])

    def _lines(self, line: int) -> Lines:
        """Lines that the piece touches; ``OutsideError`` when it leaves memory."""
        form = self.form
        if form.low == form.high:
            return slice(0, 0)
        low, high = form.low + line, form.high + line
        if low < 0 or high * self.line_bytes > self.limit:
            self._check_bounds()
        return slice(low, high) if form.contiguous else form.lines + line

    def _check_bounds(self) -> None:
        low, high = flow.runs(self.stream, self.g0, *self._given, self.line_bytes, flow.ROWS).bounds
        if low < 0 or high > self.limit:
            raise OutsideError(f"bytes {low} to {high} of {self.limit}")

    def _view(self, memory: Array, dtype: np.dtype[Any]) -> Array | None:
        """The piece as a strided view of memory; None when it is not one."""
        place = self.form.place
        if place is None:
            return None
        at, shape, strides = place
        return np.ndarray(shape, dtype, memory, self._at + at, strides)

    @property
    def index(self) -> Array:
        """Position of every element in memory seen as an array of the piece's type; guarded ones are 0."""
        if self._index is not None:
            return self._index
        index: Array = (self.form.addresses() + self._at) // self.dtype.itemsize
        if self.inside is not None:
            index = np.where(self.inside, index, 0)
        if index.size <= _KEPT:
            self._index = index
        return index

    def read(self, memory: Array) -> Array:
        """The elements, as (rows, inner). May be a view of memory: use it before the next write."""
        view = self._view(memory, self.dtype)
        if view is not None:
            return view if view.shape == self.shape else view.reshape(self.shape)
        values: Array = memory.view(self.dtype)[self.index]
        if self.inside is not None:
            values[~self.inside] = self.stream.fill
        return values

    def write(self, memory: Array, values: Array) -> None:
        """Store ``values``, which broadcast to (rows, inner)."""
        view = self._view(memory, self.dtype)
        values = spread(values, self.shape)
        if view is not None:
            view[...] = values.reshape(view.shape)
        else:
            memory.view(self.dtype)[self.index] = values

    def check_defined(self, shadow: Array, copy: int) -> bool:
        """Whether every byte has been written: 255 in ``shadow``. Written once, written for good."""
        if copy not in self.arrived:
            unsigned, all_ones = BITS[self.dtype.itemsize]
            view = self._view(shadow, unsigned)
            if view is None:
                view = shadow.view(unsigned)[self.index if self.inside is None else self.index[self.inside]]
            if not (view == all_ones).all():
                return False
            self.arrived.add(copy)
        return True

    def mark_defined(self, shadow: Array, copy: int) -> None:
        if copy not in self.marked:
            unsigned, all_ones = BITS[self.dtype.itemsize]
            view = self._view(shadow, unsigned)
            if view is not None:
                view[...] = all_ones
            else:
                shadow.view(unsigned)[self.index] = all_ones
            self.marked.add(copy)


def marked(first: Array, last: Array) -> Lines:
    """All lines of the closed intervals ``first`` ... ``last``: a slice when there are no gaps."""
    low, high = int(first.min()), int(last.max())
    count = high - low + 2
    depth = np.bincount(first - low, minlength=count) - np.bincount(last + 1 - low, minlength=count)
    touched = np.flatnonzero(np.cumsum(depth))
    if len(touched) == high - low + 1:
        return slice(low, high + 1)
    return touched + low
