"""Many pieces of one shape read and written at once."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.simulator.forms import Array, Form
from compiler.simulator.pieces import BITS
from compiler.simulator.placing import Unclear

if TYPE_CHECKING:
    from compiler.simulator.memory import Memory

_SMALL = 1 << 9  # elements of pieces that are taken one by one through their index
_KEPT = 1 << 12  # and of those whose index is kept


class Shape:
    """The elements of pieces that differ in their address only, counted from the first that is memory.

    ``key``: equal for equal shapes. ``first``: bytes from the line that a form counts from to that element.
    """

    def __init__(self, form: Form, fill: float) -> None:
        self.dtype, self.shape, self.inside, self.fill = form.dtype, form.shape, form.inside, fill
        self._outside = None if self.inside is None else ~self.inside
        self._empty = self.inside is not None and not self.inside.any()
        self.size = form.shape[0] * form.shape[1]
        self.place = form.place
        self._index: Array | None = None
        if self.place is not None:
            self.first = self.place[0]
            self.key: tuple[Any, ...] = (form.dtype.str, form.shape, *self.place[1:])
            return
        row, column = divmod(0 if self.inside is None else int(self.inside.argmax()), form.shape[1])
        rows, columns = form.sides()
        self.first = int(rows[row] + columns[column])
        self._rows, self._columns = rows - rows[row], columns - columns[column]
        mask = b"" if self.inside is None else np.packbits(self.inside).tobytes()
        found = sha256(self._rows.tobytes() + self._columns.tobytes() + mask).digest()
        self.key = (form.dtype.str, form.shape, found, repr(fill))

    @property
    def index(self) -> Array:
        """By element its position behind the first one, in elements; 0 for what is no memory."""
        if self._index is not None:
            return self._index
        if self.place is not None:
            _, extents, strides = self.place
            offsets = np.zeros(extents, np.int64)
            for axis, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
                offsets += (np.arange(extent) * stride).reshape((-1, *(1 for _ in extents[axis + 1 :])))
            offsets = offsets.reshape(self.shape)
        else:
            offsets = self._rows[:, None] + self._columns
        if self._outside is not None:
            offsets[self._outside] = 0
        found: Array = offsets // self.dtype.itemsize
        if self.size <= _KEPT:
            self._index = found
        return found

    def _views(self, at: Array, data: Array, dtype: np.dtype[Any]) -> list[Array] | None:
        """Each piece as a part of memory (or of its shadow); None when they are not, or small and many."""
        if self.place is None or (len(at) > 1 and self.size <= _SMALL):
            return None
        grain = self.dtype.itemsize // dtype.itemsize
        _, extents, strides = self.place
        strides = tuple(stride // grain for stride in strides)
        return [np.ndarray(extents, dtype, data, start // grain, strides) for start in at.tolist()]

    def _places(self, at: Array) -> Array:
        return (at // self.dtype.itemsize)[:, None, None] + self.index

    def read(self, at: Array, data: Array) -> Array:
        """The pieces at the addresses ``at``, as (pieces, rows, inner). May be a view of memory: use it before a write."""
        if self._empty:
            return np.full((len(at), *self.shape), self.fill, self.dtype)
        views = self._views(at, data, self.dtype)
        if views is None:
            values: Array = data.view(self.dtype)[self._places(at)]
            if self._outside is not None:
                np.copyto(values, self.dtype.type(self.fill), where=self._outside)
            return values
        if len(views) == 1:
            return views[0].reshape(1, *self.shape)
        values = np.empty((len(at), *self.shape), self.dtype)
        for value, view in zip(values, views, strict=True):
            value[...] = view.reshape(self.shape)
        return values

    def write(self, at: Array, data: Array, values: Array) -> None:
        """Store ``values``, which broadcast to (pieces, rows, inner)."""
        self._store(at, data, self.dtype, np.broadcast_to(values, (len(at), *self.shape)))

    def _store(self, at: Array, data: Array, dtype: np.dtype[Any], values: Array) -> None:
        views = self._views(at, data, dtype)
        if views is None:
            data.view(dtype)[self._places(at)] = values
            return
        for value, view in zip(values, views, strict=True):
            view[...] = value.reshape(view.shape)

    def require(self, at: Array, memory: Memory) -> None:
        """``Unclear`` unless every byte of the pieces has been written: 255 in the memory's shadow."""
        shadow = memory.shadow
        unsigned, all_ones = BITS[self.dtype.itemsize // memory.grain]
        if self._empty:
            return
        for view in self._views(at, shadow, unsigned) or [shadow.view(unsigned)[self._places(at)]]:
            if int(view.min()) != all_ones:  # what is outside stands for the first element
                raise Unclear

    def mark(self, at: Array, memory: Memory) -> None:
        """Note that every byte of the pieces has been written."""
        unsigned, all_ones = BITS[self.dtype.itemsize // memory.grain]
        self._store(at, memory.shadow, unsigned, np.broadcast_to(np.array(all_ones, unsigned), (len(at), *self.shape)))
