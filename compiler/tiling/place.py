"""Where values lie and how loops walk over them: places, streams and the memory lines that a piece of a stream covers.

A *place* is an affine view of a buffer: a byte stride per logical dimension. A *stream* is a place read or written by loops
in three groups (batch, rows, inner); pieces are ranges over the flattened index of each group. Addresses stay relative to
the buffer until the memory plan is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from compiler.ir import Access, DType

Range = tuple[int, int]  # (start, count) over a flattened group
Loops = tuple[tuple[int, int], ...]  # (extent, byte stride), outermost first


@dataclass(frozen=True)
class Place:
    """``address(i) = buffer + offset + sum(strides[j] * i[j])`` in bytes."""

    buffer: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    def through(self, access: Access, extents: tuple[int, ...]) -> Place:
        """The place of a view of this place, when the access never leaves it."""
        strides = self.along(access, len(extents))
        offset = self.offset + sum(s * o for s, o in zip(self.strides, access.offset, strict=True))
        return Place(self.buffer, self.dtype, extents, offset, strides)

    def along(self, access: Access, loops: int) -> tuple[int, ...]:
        """Bytes from an element read through an access to the next, along each of ``loops`` loops."""
        return tuple(sum(s * row[i] for s, row in zip(self.strides, access.matrix, strict=True)) for i in range(loops))

    def reshaped(self, shape: tuple[int, ...]) -> Place | None:
        """The same elements in row-major order under another shape, or None when no strides say that."""
        strides = reshape_strides(self.shape, self.strides, shape)
        return None if strides is None else Place(self.buffer, self.dtype, shape, self.offset, strides)


def row_major(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Byte strides of a dense row-major array of elements of ``size`` bytes."""
    return ordered_strides(shape, tuple(range(len(shape))), size)


def ordered_strides(
    shape: tuple[int, ...], order: tuple[int, ...], size: int, pitch: tuple[int, int] | None = None, lead: int = 0
) -> tuple[int, ...]:
    """Strides of a dense array stored in dimension ``order`` (outermost first).

    ``pitch = (dims, line)``: the innermost ``dims`` dimensions form a row whose length is padded to whole lines, with
    ``lead`` bytes before its first element.
    """
    strides = [0] * len(shape)
    step = size
    for place, dim in enumerate(reversed(order)):
        if pitch is not None and place == pitch[0]:
            step = -(-(step + lead) // pitch[1]) * pitch[1]
        strides[dim] = step
        step *= max(1, shape[dim])
    return tuple(strides)


def reshape_strides(old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides for ``new`` over the same elements, or None (NumPy's no-copy rule).

    Dimensions of 1 aside, both shapes fall into blocks of equal products; within an old block strides must chain.
    """
    loops = [(n, s) for n, s in zip(old, strides, strict=True) if n != 1]
    wanted = [n for n in new if n != 1]
    found: list[int] = []
    while loops or wanted:
        block = _block([n for n, _ in loops], wanted)
        if block is None or not _chained(loops[: block[0]]):
            return None
        found += row_major(tuple(wanted[: block[1]]), loops[block[0] - 1][1])
        loops, wanted = loops[block[0] :], wanted[block[1] :]
    rest = iter(found)
    return tuple(0 if n == 1 else next(rest) for n in new)


def _chained(loops: list[tuple[int, int]]) -> bool:
    """Whether (extent, stride) of neighbours make one loop."""
    return all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(loops))


def _block(old: list[int], new: list[int]) -> tuple[int, int] | None:
    """How many leading dimensions of each shape have the same product; None when the shapes do not match."""
    i = j = 0
    a = b = 1
    while i == 0 or a != b:
        if a <= b:
            if i == len(old):
                return None
            a *= old[i]
            i += 1
        else:
            if j == len(new):
                return None
            b *= new[j]
            j += 1
    return i, j


@dataclass(frozen=True)
class Dim:
    """One tensor coordinate of a stream: ``offset + sum(coefficients * loops)``, of ``extent``, ``stride`` bytes apart."""

    extent: int
    offset: int
    stride: int
    coefficients: tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """A place walked by loops in three groups; ``dims`` keep the coordinates so that guards and lines are exact."""

    buffer: str
    dtype: DType
    base: int  # byte address of coordinate 0 within the buffer
    groups: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # extents
    dims: tuple[Dim, ...]
    fill: int | float | None
    free: Loops = ()  # (extent, stride) of coordinates that data decides: for the lines touched only

    @property
    def offset(self) -> int:
        """Byte address of loop point 0, relative to the buffer."""
        return self.base + sum(d.stride * d.offset for d in self.dims)

    @property
    def extents(self) -> tuple[int, ...]:
        return self.groups[0] + self.groups[1] + self.groups[2]

    def strides(self) -> tuple[Loops, Loops, Loops]:
        """(extent, byte stride) of every loop, per group."""
        flat = [sum(d.stride * d.coefficients[i] for d in self.dims) for i in range(len(self.extents))]
        a, b = len(self.groups[0]), len(self.groups[0]) + len(self.groups[1])
        return (
            tuple(zip(self.groups[0], flat[:a], strict=True)),
            tuple(zip(self.groups[1], flat[a:b], strict=True)),
            tuple(zip(self.groups[2], flat[b:], strict=True)),
        )

    def guards(self) -> tuple[Dim, ...]:
        """The coordinates that may leave their extent, where the fill stands instead."""
        return tuple(d for d in self.dims if not _inside(d, self.extents))


def _inside(dim: Dim, extents: tuple[int, ...]) -> bool:
    low = high = dim.offset
    for c, n in zip(dim.coefficients, extents, strict=True):
        low += min(0, c * (n - 1))
        high += max(0, c * (n - 1))
    return low >= 0 and high < dim.extent


def stream(
    place: Place,
    access: Access,
    extents: tuple[int, ...],
    groups: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    fill: float | None = None,
) -> Stream:
    """The stream of ``place`` read through ``access`` by loops of ``extents``, arranged as ``groups`` of loop numbers.

    Loops that are in no group must have extent 1 or not be used by the access.
    """
    order = groups[0] + groups[1] + groups[2]
    dims = tuple(
        Dim(n, o, s, tuple(row[i] for i in order))
        for n, o, s, row in zip(place.shape, access.offset, place.strides, access.matrix, strict=True)
    )
    nests = tuple(tuple(extents[i] for i in g) for g in groups)
    return Stream(place.buffer, place.dtype, place.offset, (nests[0], nests[1], nests[2]), dims, fill)
