"""The ways through a program with branches, and the most that any of them can cost.

Branches only skip forward, so the ways are those of an acyclic graph over the instructions' positions. Two conditions may
be related; all their combinations are counted as possible, which can only make a bound larger.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.isa.instruction import Instruction, Op


def branches(rows: Sequence[Instruction]) -> bool:
    """Whether a program has more than one way through, or skips anything."""
    return any(i.opcode == Op.BRANCH for i in rows)


def dearest(rows: Sequence[Instruction], costs: Sequence[int]) -> tuple[int, list[int]]:
    """The largest sum of ``costs`` (one for each instruction, none negative) over all ways, and the positions on it."""
    best = [0] * (len(rows) + 1)
    jump = bytearray(len(rows))
    for n in range(len(rows) - 1, -1, -1):
        i = rows[n]
        best[n] = best[n + 1]
        if i.opcode == Op.BRANCH and (not i.a or best[n + 1 + i.count3] > best[n + 1]):
            best[n] = best[n + 1 + i.count3]
            jump[n] = 1
        best[n] += costs[n]
    return best[0], [n for n, _ in _walk(rows, jump)]


def longest(rows: Sequence[Instruction], ends: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
    """The latest end over all ways, and that way: positions with the cycles that were skipped before each.

    ``ends``: the cycle at which each instruction would end if nothing were skipped.
    """
    last = [0] * (len(rows) + 1)
    jump = bytearray(len(rows))
    for n in range(len(rows) - 1, -1, -1):
        i = rows[n]
        after = last[n + 1]
        if i.opcode == Op.BRANCH:
            skipped = last[n + 1 + i.count3] - i.start3
            if not i.a or skipped > after:
                after, jump[n] = skipped, 1
        last[n] = max(ends[n], after)
    return last[0], _walk(rows, jump)


def _walk(rows: Sequence[Instruction], jump: bytearray) -> list[tuple[int, int]]:
    found = []
    n = skipped = 0
    while n < len(rows):
        found.append((n, skipped))
        if jump[n]:
            skipped += rows[n].start3
            n += rows[n].count3
        n += 1
    return found
