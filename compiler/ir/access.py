"""Bounded affine accesses: which element of a tensor a point of an iteration domain reads.

``coordinate[j] = offset[j] + sum_i matrix[j][i] * loop[i]``. Where a coordinate leaves ``[0, shape[j])`` the access
yields the operand's ``fill`` instead (padding that is never stored); an operand without a fill never leaves it.
Transposes, slices, broadcasts, strides, reversals, windows and pads are all of this form.

Words: a loop *moves* a coordinate when its coefficient there is not zero. A loop *walks* a dimension when it alone moves
its coordinate, one place a step, from the first place to the last. ``extents`` are steps of the loops, ``shape`` is the
tensor's. A loop that moves nothing *reuses* what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod


@dataclass(frozen=True)
class Access:
    """An affine map from ``loops`` loop coordinates to ``len(offset)`` tensor coordinates."""

    offset: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]  # [rank][loops]

    @staticmethod
    def identity(rank: int, loops: int | None = None) -> Access:
        """Coordinate j is loop j; further loops are not used."""
        return Access.of_loops(range(rank), rank if loops is None else loops)

    @staticmethod
    def of_loops(loops: Iterable[int | None], width: int) -> Access:
        """Coordinate j is the j-th of ``loops``, of ``width`` loops; where that is None it stays 0."""
        return Access.linear(tuple(int(i == loop) for i in range(width)) for loop in loops)

    @staticmethod
    def linear(rows: Iterable[Sequence[int]]) -> Access:
        """The map with these rows and no offset."""
        matrix = tuple(map(tuple, rows))
        return Access((0,) * len(matrix), matrix)

    # -- what it reads --------------------------------------------------------------------------------------------------

    def loops(self, j: int) -> tuple[int, ...]:
        """Loops that move coordinate j."""
        return tuple([i for i, c in enumerate(self.matrix[j]) if c])

    def dims(self, i: int) -> tuple[int, ...]:
        """Coordinates that loop i moves."""
        return tuple([j for j, row in enumerate(self.matrix) if row[i]])

    @cached_property
    def moving(self) -> frozenset[int]:
        """Loops that move some coordinate; the others reuse what is read."""
        return frozenset(i for row in self.matrix for i, c in enumerate(row) if c)

    def uses(self, loops: int | Iterable[int]) -> bool:
        """Whether that loop, or one of those loops, moves some coordinate."""
        return loops in self.moving if isinstance(loops, int) else not self.moving.isdisjoint(loops)

    def windows(self, parallel: int) -> tuple[int, ...]:
        """Coordinates moved by one of the first ``parallel`` loops and by one behind them: windows that slide."""
        return tuple([j for j, row in enumerate(self.matrix) if any(row[:parallel]) and any(row[parallel:])])

    def plain(self, j: int) -> int | None:
        """The loop whose coordinate is coordinate j itself: unit stride, from 0, no other; else None."""
        moved = self.loops(j)
        return moved[0] if len(moved) == 1 and self.matrix[j][moved[0]] == 1 and not self.offset[j] else None

    def only(self, i: int) -> int | None:
        """The one coordinate that loop i moves; None where it moves none or several."""
        moved = self.dims(i)
        return moved[0] if len(moved) == 1 else None

    def along(self, i: int) -> int | None:
        """The dimension whose coordinate loop i is, if it moves no other; else None."""
        j = self.only(i)
        return j if j is not None and self.plain(j) == i else None

    def walked(self, i: int, extents: Sequence[int], shape: Sequence[int]) -> int | None:
        """The dimension that loop i walks, the only one that it moves; None where there is none."""
        j = self.along(i)
        return j if j is not None and extents[i] == shape[j] else None

    def is_permutation(self, extents: Sequence[int], shape: Sequence[int]) -> bool:
        """Whether it reads each element exactly once, each dimension by one loop, forwards or backwards. Loops and
        dimensions of one place do not count."""
        taken: list[int] = []
        for j, n in enumerate(shape):
            moved = [i for i in self.loops(j) if extents[i] > 1]
            if moved or n > 1:
                if len(moved) != 1 or abs(self.matrix[j][moved[0]]) != 1 or extents[moved[0]] != n:
                    return False
                taken += moved
        return sorted(taken) == [i for i, n in enumerate(extents) if n > 1] and self.stays_inside(shape, extents)

    def range(self, j: int, extents: Sequence[int]) -> tuple[int, int]:
        """Smallest and largest value of coordinate ``j`` over non-empty loops of the given extents."""
        low = high = self.offset[j]
        for c, n in zip(self.matrix[j], extents, strict=True):
            low += min(0, c * (n - 1))
            high += max(0, c * (n - 1))
        return low, high

    def inside(self, j: int, n: int, extents: Sequence[int]) -> bool:
        """Whether coordinate j stays in ``[0, n)``."""
        low, high = self.range(j, extents)
        return low >= 0 and high < n

    def guarded(self, shape: Sequence[int], extents: Sequence[int]) -> list[int]:
        """Coordinates that leave ``shape`` for some point of non-empty loops."""
        return [j for j, n in enumerate(shape) if not self.inside(j, n, extents)]

    def stays_inside(self, shape: Sequence[int], extents: Sequence[int]) -> bool:
        return not self.guarded(shape, extents)

    # -- accesses made of it --------------------------------------------------------------------------------------------

    def compose(self, inner: Access, loops: int) -> Access:
        """The access that applies ``inner`` (``loops`` loops -> mid coordinates) first and then ``self`` (mid -> tensor)."""
        rows = []
        offset = []
        for o, row in zip(self.offset, self.matrix, strict=True):
            offset.append(o + sum(c * inner.offset[m] for m, c in enumerate(row)))
            rows.append(tuple(sum(c * inner.matrix[m][i] for m, c in enumerate(row)) for i in range(loops)))
        return Access(tuple(offset), tuple(rows))

    def keep(self, loops: Iterable[int | None]) -> Access:
        """Over these of its loops, in this order; None is a loop that moves nothing. A loop left out stays at 0."""
        order = tuple(loops)
        return Access(self.offset, tuple(tuple([0 if i is None else row[i] for i in order]) for row in self.matrix))

    def project(self, dims: Iterable[int]) -> Access:
        """These coordinates alone, in this order."""
        order = tuple(dims)
        return Access(tuple(self.offset[j] for j in order), tuple(self.matrix[j] for j in order))

    def stacked(self, other: Access) -> Access:
        """Its coordinates, then those of another access over the same loops."""
        return Access(self.offset + other.offset, self.matrix + other.matrix)

    def shifted(self, loop: int, start: int, step: int = 1) -> Access:
        """As a loop that begins at ``start`` and then goes ``step`` at a time reads it."""
        offset = tuple(o + row[loop] * start for o, row in zip(self.offset, self.matrix, strict=True))
        if step == 1:
            return Access(offset, self.matrix)
        return Access(offset, tuple((*row[:loop], row[loop] * step, *row[loop + 1 :]) for row in self.matrix))

    def split(self, loop: int, sizes: Sequence[int]) -> Access:
        """With loops of these extents, the last the innermost, in the place of one loop (strip mining)."""
        steps = [prod(sizes[at + 1 :]) for at in range(len(sizes))]
        return Access(
            self.offset, tuple((*row[:loop], *(row[loop] * s for s in steps), *row[loop + 1 :]) for row in self.matrix)
        )

    def replaced(self, j: int, offset: int, row: tuple[int, ...]) -> Access:
        """With another coordinate j."""
        offsets = (*self.offset[:j], offset, *self.offset[j + 1 :])
        return Access(offsets, (*self.matrix[:j], row, *self.matrix[j + 1 :]))
