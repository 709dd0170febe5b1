"""Pieces in their common form: everything about a piece but where it lies, found once for all of a program's pieces.

Tiles of one operation are the same piece at other places (``compiler.isa.lines``), so this is where most of the work of
preparing a program is saved.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from compiler.isa import NUMPY, Nest, flow
from compiler.isa.flow import offsets
from compiler.isa.geometry import simplify
from compiler.isa.lines import Common, lines_of

Array = np.ndarray[Any, Any]
Visits = tuple[Array, Array]


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
    return 1 + int(np.count_nonzero(np.diff(np.sort(offsets(tuple(reversed(moving)), start, count)))))


class Box(NamedTuple):
    """Part of a nest as an array: first byte offset, shape, byte strides."""

    at: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@lru_cache(maxsize=1 << 14)
def _box(nest: Nest, start: int, count: int) -> Box | None:
    """A range of a nest when it is a box of whole inner rows."""
    nest = simplify(nest)
    if not nest:
        return Box(0, (1,), (0,)) if count == 1 else None
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
            return Box(int(offsets(nest, start, 1)[0]), shape, strides)
        inner *= extent
    return None


class Form:
    """The elements of a piece, as an array of shape (rows, inner), counted from the line that holds the piece's address.

    ``elements``: those really taken from memory. ``inside``: which are memory rather than fill, None when all are.
    ``boxes``: rows and inner points as arrays, where they are; ``base``: the address that both count from.
    ``place``: first byte, shape and byte strides when they are a strided view of memory. Its lines lie from ``low`` to
    ``high``, exclusive.
    """

    def __init__(self, common: Common, line_bytes: int) -> None:
        self._common = common
        self._line_bytes = line_bytes
        stream = self._stream = common.stream
        self.dtype = NUMPY[stream.dtype]
        self._rows = common.rows if stream.g1 else (0, 1)
        self._inner = common.inner if stream.g2 else (0, 1)
        self.shape = (self._rows[1], self._inner[1])
        self.elements = taken(stream.g1, *self._rows) * taken(stream.g2, *self._inner)
        self.base = stream.base
        self.boxes = _box(stream.g1, *self._rows), _box(stream.g2, *self._inner)
        self.inside = self._guarded()
        self.place = self._boxed()
        self._repeats: bool | None = None

    @cached_property
    def lines(self) -> Array:
        """All lines that hold some of it, ascending."""
        return lines_of(self._common, self._line_bytes, flow.ROWS).lines

    @property
    def contiguous(self) -> bool:
        """Whether its lines have no gaps."""
        return self.high - self.low == self.lines.size

    @property
    def low(self) -> int:
        """Its first line."""
        return self.span[0]

    @property
    def high(self) -> int:
        """The line behind its last."""
        return self.span[1]

    @cached_property
    def span(self) -> tuple[int, int]:
        """Its first line, and the one behind its last."""
        if self.place is None:
            return (int(self.lines[0]), int(self.lines[-1]) + 1) if self.lines.size else (0, 0)
        at, extents, strides = self.place  # a box has its first and its last byte in corners
        reach = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
        low, high = at + sum(min(0, n) for n in reach), at + sum(max(0, n) for n in reach) + self.dtype.itemsize
        return low // self._line_bytes, (high - 1) // self._line_bytes + 1

    def _guarded(self) -> Array | None:
        stream = self._stream
        mask: Array | None = None
        for guard in stream.guards:
            at = 0
            value: Any = guard.offset
            for nest, (start, count), shape in (
                (stream.g1, self._rows, (-1, 1)),
                (stream.g2, self._inner, (1, -1)),
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

    def addresses(self) -> Array:
        """Byte address of every element; those of guarded ones mean nothing."""
        rows, columns = self.sides()
        return rows[:, None] + columns

    def sides(self) -> tuple[Array, Array]:
        """What rows and inner points add to the byte address of an element; rows with the address of the piece."""
        return offsets(self._stream.g1, *self._rows) + self._stream.base, offsets(self._stream.g2, *self._inner)

    def visits(self, order: str) -> Visits:
        """By line the first and the last row (or point) in it."""
        _, first, last = lines_of(self._common, self._line_bytes, order)
        return first, last

    def _boxed(self) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
        """Address, shape and strides when both ranges are boxes of whole inner rows."""
        rows, inner = self.boxes
        if self.inside is not None or rows is None or inner is None:
            return None
        return self.base + rows.at + inner.at, rows.extents + inner.extents, rows.strides + inner.strides

    @property
    def repeats(self) -> bool:
        """Whether two elements share an address."""
        if self._repeats is None:
            self._repeats = self._find_repeats()
        return self._repeats

    def _find_repeats(self) -> bool:
        spans = sorted((abs(loop.stride), loop.extent) for loop in self._stream.g1 + self._stream.g2 if loop.extent > 1)
        reach = self.dtype.itemsize
        for stride, extent in spans:
            if stride < reach:
                break
            reach = stride * (extent - 1) + reach
        else:
            return False
        return not bool(np.diff(np.sort(self.addresses(), axis=None)).all())
