"""Bounded affine accesses: which element of a tensor a point of an iteration domain reads.

``coordinate[j] = offset[j] + sum_i matrix[j][i] * loop[i]``. Where a coordinate leaves ``[0, shape[j])`` the access
yields the operand's ``fill`` instead (padding that is never stored); an operand without a fill never leaves it.
Transposes, slices, broadcasts, strides, reversals, windows and pads are all of this form.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Access:
    """An affine map from ``loops`` loop coordinates to ``len(offset)`` tensor coordinates."""

    offset: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]  # [rank][loops]

    @staticmethod
    def identity(rank: int, loops: int | None = None) -> Access:
        """Coordinate j is loop j; further loops are not used."""
        width = rank if loops is None else loops
        return Access((0,) * rank, tuple(tuple(int(i == j) for i in range(width)) for j in range(rank)))

    def compose(self, inner: Access, loops: int) -> Access:
        """The access that applies ``inner`` (``loops`` loops -> mid coordinates) first and then ``self`` (mid -> tensor)."""
        rows = []
        offset = []
        for o, row in zip(self.offset, self.matrix, strict=True):
            offset.append(o + sum(c * inner.offset[m] for m, c in enumerate(row)))
            rows.append(tuple(sum(c * inner.matrix[m][i] for m, c in enumerate(row)) for i in range(loops)))
        return Access(tuple(offset), tuple(rows))

    def range(self, j: int, extents: tuple[int, ...]) -> tuple[int, int]:
        """Smallest and largest value of coordinate ``j`` over non-empty loops of the given extents."""
        low = high = self.offset[j]
        for c, n in zip(self.matrix[j], extents, strict=True):
            low += min(0, c * (n - 1))
            high += max(0, c * (n - 1))
        return low, high

    def moved_by(self, loop: int) -> list[int]:
        """Coordinates that a loop moves."""
        return [j for j, row in enumerate(self.matrix) if row[loop]]

    def only(self, loop: int) -> int:
        """The one coordinate that a loop moves; -1 where there is none, or several."""
        found = self.moved_by(loop)
        return found[0] if len(found) == 1 else -1

    def loop_of(self, j: int) -> int:
        """The loop that coordinate ``j`` equals; -1 where it is none."""
        moved = [i for i, c in enumerate(self.matrix[j]) if c]
        return moved[0] if len(moved) == 1 and self.matrix[j][moved[0]] == 1 and not self.offset[j] else -1

    def guarded(self, shape: tuple[int, ...], extents: tuple[int, ...]) -> list[int]:
        """Coordinates that leave ``shape`` for some point of non-empty loops of the given extents."""
        ranges = [self.range(j, extents) for j in range(len(shape))]
        return [j for j, ((low, high), n) in enumerate(zip(ranges, shape, strict=True)) if low < 0 or high >= n]

    def stays_inside(self, shape: tuple[int, ...], extents: tuple[int, ...]) -> bool:
        return not self.guarded(shape, extents)
