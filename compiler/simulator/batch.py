"""Many pieces of one shape read and written at once."""

from __future__ import annotations

from hashlib import sha256
from math import prod
from typing import Any

import numpy as np

from compiler.simulator.forms import Array, Form
from compiler.simulator.memory import Memory
from compiler.simulator.pieces import BITS
from compiler.simulator.placing import Unclear

_SMALL = 1 << 4  # elements of boxes that are taken one by one: each box costs as much as a few elements
_NEAR = 4  # times the elements of pieces that is looked through, rather than those alone
_KEPT = 1 << 15  # elements of pieces whose index is kept


class _Boxes:
    """A shape as equal boxes of memory. ``begin``: elements that each begins behind the shape's first one.

    ``turned``: the boxes are columns. ``outside``: positions in them, one behind the other, of what is no memory.
    """

    def __init__(self, begin: Array, extents: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.extents, self._strides = extents, strides  # in elements
        steps = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
        self._low, self._reach = sum(step for step in steps if step < 0), sum(abs(step) for step in steps)
        self.begin = begin + self._low
        self._first, self._last = int(self.begin.min()), int(self.begin.max())
        self.turned = False
        self.outside: Array | None = None

    def between(self, at: Array) -> tuple[int, int]:
        """The first element of all boxes of the pieces at the elements ``at``, and the one behind their last."""
        return int(at.min()) + self._first, int(at.max()) + self._last + self._reach + 1

    def places(self, at: Array, elements: int) -> Array | None:
        """Where the boxes of the pieces at the elements ``at`` have their lowest one; None when a box leaves memory, as one
        may that has elements that are none."""
        low, high = self.between(at)
        if low < 0 or high > elements:
            return None
        found: Array = at[:, None] + self.begin
        return found

    def window(self, data: Array, dtype: np.dtype[Any]) -> Array:
        """Memory as a box at each of its elements, by its lowest one."""
        size = dtype.itemsize
        shape = (data.nbytes // size - self._reach, *self.extents)
        return np.ndarray(shape, dtype, data, -self._low * size, (size, *(stride * size for stride in self._strides)))

    def shaped(self, values: Array, shape: tuple[int, int]) -> Array:
        """Boxes read as (pieces, rows, inner)."""
        if self.turned:
            return values.reshape(-1, shape[1], shape[0]).swapaxes(1, 2)
        return values.reshape(-1, *shape)

    def boxed(self, values: Array, shape: tuple[int, int], pieces: int) -> Array:
        """What broadcasts to (pieces, rows, inner) as boxes."""
        values = np.broadcast_to(values, (pieces, *shape))
        return (values.swapaxes(1, 2) if self.turned else values).reshape(pieces, len(self.begin), *self.extents)


class Shape:
    """The elements of pieces that differ in their address only, counted from the first that is memory.

    ``key``: equal for equal shapes. ``first``: bytes from the line that a form counts from to that element.
    """

    def __init__(self, form: Form, fill: float) -> None:
        self.dtype, self.shape, self.inside, self.fill = form.dtype, form.shape, form.inside, fill
        self.size = form.shape[0] * form.shape[1]
        self._form = form
        self._index: Array | None = None
        at = 0 if self.inside is None else int(self.inside.argmax())
        self._empty = self.inside is not None and not self.inside.flat[at]
        rows, inner = form.boxes
        if self.inside is None and rows is not None and inner is not None:
            self.first = form.base + rows.at + inner.at
            self.key: tuple[Any, ...] = (form.dtype.str, form.shape, rows[1:], inner[1:])
        else:
            below, across = form.sides()
            row, column = divmod(at, form.shape[1])
            self.first = int(below[row] + across[column])
            mask = b"" if self.inside is None else np.packbits(self.inside).tobytes()
            found = sha256((below - below[row]).tobytes() + (across - across[column]).tobytes() + mask).digest()
            self.key = (form.dtype.str, form.shape, found, repr(fill))
        self._boxes = self._boxed()

    def _boxed(self) -> _Boxes | None:
        """The shape as boxes; None when they are small, or most of it is no memory."""
        if self.inside is not None and 2 * int(np.count_nonzero(self.inside)) < self.size:
            return None
        rows, inner = self._form.boxes
        if rows is not None and inner is not None:
            begin = np.array([self._form.base + rows.at + inner.at])
            extents, strides = rows.extents + inner.extents, rows.strides + inner.strides
        else:
            box = inner or rows
            if box is None:
                return None
            below, across = self._form.sides()
            begin = below + across[0] if inner is not None else across + below[0]
            _, extents, strides = box
        if prod(extents) < _SMALL:
            return None
        size = self.dtype.itemsize
        found = _Boxes((begin - self.first) // size, extents, tuple(stride // size for stride in strides))
        found.turned = inner is None
        if self.inside is not None:
            found.outside = np.flatnonzero(~(self.inside if inner is not None else self.inside.T))
        return found

    @property
    def index(self) -> Array:
        """Where elements that are memory lie behind the first one, in elements."""
        if self._index is not None:
            return self._index
        below, across = self._form.sides()
        found = ((below[:, None] + across).reshape(-1) - self.first) // self.dtype.itemsize
        if self.inside is not None:
            found = found[self.inside.reshape(-1)]
        if self.size <= _KEPT:
            self._index = found
        return found

    def _found(self, at: Array, data: Array, dtype: np.dtype[Any]) -> tuple[_Boxes, Array, Array] | None:
        """The shape's boxes, memory (or its shadow) as such boxes and which of those the pieces are; None without any."""
        boxes = self._boxes
        places = boxes.places(at // self.dtype.itemsize, data.nbytes // dtype.itemsize) if boxes else None
        return None if boxes is None or places is None else (boxes, boxes.window(data, dtype), places)

    def _places(self, at: Array) -> Array:
        return (at // self.dtype.itemsize)[:, None] + self.index

    def read(self, at: Array, data: Array) -> Array:
        """The pieces at the addresses ``at``, as (pieces, rows, inner). May be a view of memory: use it before a write."""
        if self._empty:
            return np.full((len(at), *self.shape), self.fill, self.dtype)
        found = self._found(at, data, self.dtype)
        if found is None:
            return self._one_by_one(at, data)
        boxes, window, place = found
        if place.size == 1 and self.inside is None:
            return boxes.shaped(window[place[0, 0]], self.shape)
        values: Array = np.ascontiguousarray(window[place])
        if boxes.outside is not None:
            values.reshape(len(at), -1)[:, boxes.outside] = self.fill
        return boxes.shaped(values, self.shape)

    def _one_by_one(self, at: Array, data: Array) -> Array:
        found: Array = data.view(self.dtype)[self._places(at)]
        if self.inside is not None:
            values = np.full((len(at), self.size), self.fill, self.dtype)
            values[:, np.flatnonzero(self.inside)] = found
            found = values
        return found.reshape(-1, *self.shape)

    def write(self, at: Array, data: Array, values: Array) -> None:
        """Store ``values``, which broadcast to (pieces, rows, inner)."""
        found = self._found(at, data, self.dtype)
        if found is None:
            values = np.broadcast_to(values, (len(at), *self.shape))
            data.view(self.dtype)[self._places(at)] = values.reshape(len(at), -1)
        else:
            boxes, window, place = found
            window[place] = boxes.boxed(values, self.shape, len(at))

    def require(self, at: Array, memory: Memory) -> None:
        """``Unclear`` unless every byte of the pieces has been written: 255 in the memory's shadow."""
        unsigned, all_ones = BITS[self.dtype.itemsize // memory.grain]
        if self._empty or self._all_written(at, memory.shadow.view(unsigned), all_ones):
            return
        found = self._found(at, memory.shadow, unsigned)
        if found is None:
            written = memory.shadow.view(unsigned)[self._places(at)]
        else:
            boxes, window, place = found
            one = place.size == 1 and self.inside is None
            written = window[place[0, 0]] if one else np.ascontiguousarray(window[place])
            if boxes.outside is not None:
                written.reshape(len(at), -1)[:, boxes.outside] = all_ones
        if int(written.min()) != all_ones:
            raise Unclear

    def _all_written(self, at: Array, shadow: Array, all_ones: int) -> bool:
        """Whether everything between the pieces has been written too: quick to see, where that is not much more."""
        if self._boxes is None:
            return False
        low, high = self._boxes.between(at // self.dtype.itemsize)
        near = low >= 0 and high <= len(shadow) and high - low <= _NEAR * len(at) * self.size
        return near and int(shadow[low:high].min()) == all_ones

    def mark(self, at: Array, memory: Memory) -> None:
        """Note that every byte of the pieces has been written."""
        unsigned, all_ones = BITS[self.dtype.itemsize // memory.grain]
        found = self._found(at, memory.shadow, unsigned)
        if found is None:
            memory.shadow.view(unsigned)[self._places(at)] = all_ones
        else:
            _, window, place = found
            window[place] = all_ones
