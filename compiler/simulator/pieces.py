"""Pieces of streams as arrays: which bytes they are, which lines, and how to read and write them at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from compiler.isa import flow
from compiler.isa.element import NUMPY
from compiler.isa.flow import offsets
from compiler.isa.geometry import Range, simplify
from compiler.isa.lines import common
from compiler.isa.lines import lines as touched
from compiler.isa.stream import Nest, Stream

Array = np.ndarray[Any, Any]
Lines = slice | Array
Visits = tuple[Array, Array]


class OutsideError(Exception):
    """A piece has elements where it may not: below 0, or at ``limit`` and beyond."""


def coordinates(nest: Nest, loop: int, start: int, count: int) -> Array:
    """Coordinate of one loop at each point of a range."""
    return offsets(tuple(item._replace(stride=int(n == loop)) for n, item in enumerate(nest)), start, count)


@lru_cache(maxsize=1 << 14)
def taken(nest: Nest, start: int, count: int) -> int:
    """Elements really taken from memory: points that differ in a loop that moves."""
    if not nest:
        return 1
    if all(loop.stride for loop in nest if loop.extent > 1):
        return count
    size, moving = 1, []
    for loop in reversed(nest):
        moving.append(loop._replace(stride=size if loop.stride else 0))
        size *= loop.extent if loop.stride else 1
    return int(np.unique(offsets(tuple(reversed(moving)), start, count)).size)


def _box(nest: Nest, start: int, count: int) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """A range of a nest as (first byte offset, shape, byte strides) when it is a box of whole inner rows."""
    nest = simplify(nest)
    if not nest:
        return (0, (1,), (0,)) if count == 1 else None
    inner = 1
    for depth in range(len(nest) - 1, -1, -1):
        extent, _ = nest[depth]
        if start % inner or count % inner:
            return None
        at, steps = start // inner, count // inner
        if at % extent + steps <= extent:
            rest = nest[depth + 1 :]
            shape = (steps, *(loop.extent for loop in rest))
            strides = (nest[depth].stride, *(loop.stride for loop in rest))
            return int(offsets(nest, start, 1)[0]), shape, strides
        inner *= extent
    return None


class Piece:
    """The elements that one instruction takes from or puts into a stream, as an array of shape (rows, inner).

    Where they lie is computed once and kept; the values are read each time. ``limit``: first address beyond memory.
    """

    def __init__(self, stream: Stream, g0: int, rows: Range, inner: Range, line_bytes: int, limit: int) -> None:
        self.stream = stream
        self._given = (rows, inner)
        self.dtype = NUMPY[stream.dtype]
        self.rows = rows if stream.g1 else (0, 1)
        self.inner = inner if stream.g2 else (0, 1)
        self.g0 = g0 if stream.g0 else 0
        self.shape = (self.rows[1], self.inner[1])
        self.origin = stream.base + int(offsets(stream.g0, self.g0, 1)[0])
        self.line_bytes = line_bytes
        self.limit = limit
        self.elements = taken(stream.g1, *self.rows) * taken(stream.g2, *self.inner)
        self.nbytes = self.elements * self.dtype.itemsize
        self.inside = self._guarded()
        self._index: Array | None = None
        self._place = self._boxed()
        self._visits: dict[str, Visits] = {}
        self.lines = self._lines()
        self.moves = False  # it lies in the arena, and so elsewhere for each copy of it
        self.arrived: set[int] = set()  # copies in which every byte has been seen to be defined, which it stays
        self.marked: set[int] = set()  # copies in which every byte has been marked as defined

    def _guarded(self) -> Array | None:
        """Which elements are memory rather than fill; None when all are."""
        stream = self.stream
        if not stream.guards or not common(stream, self.g0, *self._given).stream.guards:
            return None
        mask: Array | None = None
        for guard in stream.guards:
            at = 0
            value: Any = guard.offset
            for nest, (start, count), shape in (
                (stream.g0, (self.g0, 1), (1, 1)),
                (stream.g1, self.rows, (-1, 1)),
                (stream.g2, self.inner, (1, -1)),
            ):
                steps = guard.coefficients[at : at + len(nest)]
                at += len(nest)
                if any(steps):
                    moved = tuple(loop._replace(stride=c) for loop, c in zip(nest, steps, strict=True))
                    value = value + offsets(moved, start, count).reshape(shape)
            here = np.asarray((value >= 0) & (value < guard.extent))
            if not here.all():
                mask = here if mask is None else mask & here
        return None if mask is None else np.broadcast_to(mask, self.shape)

    def _addresses(self) -> Array:
        """Byte address of every element; those of guarded ones mean nothing."""
        first = offsets(self.stream.g1, *self.rows) + self.origin
        return first[:, None] + offsets(self.stream.g2, *self.inner)

    def _lines(self) -> Lines:
        """Lines that the piece touches; ``OutsideError`` when it leaves memory."""
        lines, first, last = self._touched(flow.ROWS)
        self._visits[flow.ROWS] = (first, last)
        if lines.size == 0:
            return slice(0, 0)
        low, high = int(lines[0]), int(lines[-1]) + 1
        if low < 0 or high * self.line_bytes > self.limit:
            self._check_bounds()
        return slice(low, high) if high - low == lines.size else lines

    def _check_bounds(self) -> None:
        low, high = flow.runs(self.stream, self.g0, *self._given, self.line_bytes, flow.ROWS).bounds
        if low < 0 or high > self.limit:
            raise OutsideError(f"bytes {low} to {high} of {self.limit}")

    def _touched(self, order: str) -> flow.Touched:
        return touched(self.stream, self.g0, *self._given, self.line_bytes, order)

    def visits(self, order: str) -> Visits:
        """By line the first and the last row (or point) in it."""
        found = self._visits.get(order)
        if found is None:
            _, first, last = self._touched(order)
            found = self._visits[order] = (first, last)
        return found

    def _view(self, memory: Array, dtype: np.dtype[Any]) -> Array | None:
        """The piece as a strided view of memory; None when it is not one."""
        if self._place is None:
            return None
        at, shape, strides = self._place
        return np.ndarray(shape, dtype, memory, at, strides)

    def _boxed(self) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
        """Address, shape and strides when both ranges are boxes of whole inner rows."""
        rows, inner = _box(self.stream.g1, *self.rows), _box(self.stream.g2, *self.inner)
        if self.inside is not None or rows is None or inner is None:
            return None
        return self.origin + rows[0] + inner[0], rows[1] + inner[1], rows[2] + inner[2]

    @property
    def index(self) -> Array:
        """Position of every element in memory seen as an array of the piece's type; guarded ones are 0."""
        if self._index is None:
            index = self._addresses() // self.dtype.itemsize
            self._index = index if self.inside is None else np.where(self.inside, index, 0)
        return self._index

    def read(self, memory: Array) -> Array:
        """The elements, as (rows, inner). May be a view of memory: use it before the next write."""
        view = self._view(memory, self.dtype)
        if view is not None:
            return view.reshape(self.shape)
        values: Array = memory.view(self.dtype)[self.index]
        if self.inside is not None:
            values[~self.inside] = self.stream.fill
        return values

    def write(self, memory: Array, values: Array) -> None:
        """Store ``values``, which broadcast to (rows, inner)."""
        view = self._view(memory, self.dtype)
        values = np.broadcast_to(values, self.shape)
        if view is not None:
            view[...] = values.reshape(view.shape)
        else:
            memory.view(self.dtype)[self.index] = values

    def check_defined(self, shadow: Array, copy: int) -> bool:
        """Whether every byte has been written: 255 in ``shadow``. Written once, written for good."""
        if copy not in self.arrived:
            unsigned = np.dtype(f"u{self.dtype.itemsize}")
            view = self._view(shadow, unsigned)
            if view is None:
                view = shadow.view(unsigned)[self.index if self.inside is None else self.index[self.inside]]
            if not (view == np.iinfo(unsigned).max).all():
                return False
            self.arrived.add(copy)
        return True

    def mark_defined(self, shadow: Array, copy: int) -> None:
        if copy not in self.marked:
            unsigned = np.dtype(f"u{self.dtype.itemsize}")
            view = self._view(shadow, unsigned)
            if view is not None:
                view[...] = np.iinfo(unsigned).max
            else:
                shadow.view(unsigned)[self.index] = np.iinfo(unsigned).max
            self.marked.add(copy)

    def repeats(self) -> bool:
        """Whether two elements share an address."""
        spans = sorted((abs(loop.stride), loop.extent) for loop in self.stream.g1 + self.stream.g2 if loop.extent > 1)
        reach = self.dtype.itemsize
        for stride, extent in spans:
            if stride < reach:
                break
            reach = stride * (extent - 1) + reach
        else:
            return False
        address = self._addresses()
        return bool(np.unique(address).size < address.size)


def marked(first: Array, last: Array) -> Lines:
    """All lines of the closed intervals ``first`` ... ``last``: a slice when there are no gaps."""
    low, high = int(first.min()), int(last.max())
    count = high - low + 2
    depth = np.bincount(first - low, minlength=count) - np.bincount(last + 1 - low, minlength=count)
    touched = np.flatnonzero(np.cumsum(depth))
    if len(touched) == high - low + 1:
        return slice(low, high + 1)
    return touched + low
