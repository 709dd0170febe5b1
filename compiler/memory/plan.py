"""The memory plan: where each buffer of the arena lies while it is live.

Live ranges are half-open cycle intervals of the finished schedule. With a period (back-to-back inferences) they wrap around
a circle. Two buffers whose live ranges meet never share a byte. The bound is the largest sum of sizes that are live at once.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

import numpy as np

from compiler.memory.offsets import Mask, Vector, search

Rows = list[bytes | list[int]]  # by buffer, for every other one whether their lives meet; or the few whose lives do

FEW = 8  # part of all buffers that are few
MANY = 1_000  # buffers whose neighbours are looked at all at once
SEARCH_STEPS = 120  # improvement steps after the greedy orders; a count, never a time
SEARCH_WORK = 1 << 24  # and of hundreds of buffers fewer: each step looks at pairs of them
NEVER = 1 << 62
EXACT_WORK = 200_000_000  # of the exact search for each size of arena: its steps times buffers times sections
EXACT_STEPS = 2_000  # and never more steps than that
FURTHER_STEPS = 500  # of the sizes tried when the bound itself was not reached: what is found is found soon
EXACT_SIZES = 4  # sizes of arena that it tries


@dataclass(frozen=True)
class LiveRange:
    """A buffer of ``size`` bytes, live in the cycles ``[start, end)``."""

    name: str
    size: int
    start: int
    end: int


@dataclass(frozen=True)
class MemoryPlan:
    """Byte offsets inside the arena, its size, and the largest sum of live bytes (a proven lower bound).

    ``smallest``: no arena is smaller. Live ranges that wrap around may need more than ever is live at once.
    """

    offsets: dict[str, int]
    arena: int
    bound: int
    smallest: bool = True


def plan(buffers: list[LiveRange], period: int | None = None) -> MemoryPlan:
    """Place ``buffers`` (sizes are multiples of a line); ``period`` makes live ranges wrap, none may be longer than it."""
    buffers = [b for b in buffers if b.size > 0]
    if not buffers:
        return MemoryPlan({}, 0, 0)
    meets = _meeting(buffers, period)
    bound = live_bound(buffers, period)
    best: tuple[int, list[int], list[int]] | None = None
    for order in _orders(buffers):
        offsets, top = _place(buffers, order, meets)
        if best is None or top < best[0]:
            best = (top, offsets, order)
        if top == bound:
            break
    assert best is not None
    best = _improve(buffers, meets, best, bound)
    top, offsets, smallest = (best[0], best[1], True) if best[0] == bound else _exact(buffers, period, best, bound)
    return MemoryPlan({b.name: o for b, o in zip(buffers, offsets, strict=True)}, top, bound, smallest)


def live_bound(buffers: list[LiveRange], period: int | None = None) -> int:
    """The largest sum of sizes of buffers that are live in the same cycle."""
    events: dict[int, int] = {}
    for b in buffers:
        for start, end in _pieces(b, period):
            events[start] = events.get(start, 0) + b.size
            events[end] = events.get(end, 0) - b.size
    live = peak = 0
    for cycle in sorted(events):
        live += events[cycle]
        peak = max(peak, live)
    return peak


def _pieces(b: LiveRange, period: int | None) -> list[tuple[int, int]]:
    if period is None:
        return [(b.start, b.end)]
    start = b.start % period
    end = start + (b.end - b.start)
    return [(start, end)] if end <= period else [(start, period), (0, end - period)]


def _meeting(buffers: list[LiveRange], period: int | None) -> Rows:
    """``[i][j]``: the live ranges of i and j have a cycle in common, for i other than j. One row after the other: as bytes.

    In a long program a buffer meets few others, which are then named: who places it looks at them alone.
    """
    pieces = np.full((len(buffers), 2, 2), NEVER, np.int64)
    pieces[:, :, 1] = -1  # a life in one piece meets nothing with the other
    for number, b in enumerate(buffers):
        found = _pieces(b, period)
        pieces[number, : len(found)] = found
    start, end = pieces[:, :, 0], pieces[:, :, 1]
    rows: Rows = []
    for number in range(len(buffers)):
        hit = np.zeros(len(buffers), np.bool_)
        for low, high in pieces[number].tolist():
            hit |= ((start < high) & (low < end)).any(axis=1)
        hit[number] = False
        few = np.count_nonzero(hit) * FEW <= len(buffers)
        rows.append(np.flatnonzero(hit).tolist() if few else hit.tobytes())
    return rows


def _orders(buffers: list[LiveRange]) -> list[list[int]]:
    """The greedy orders tried, each total (the index breaks ties)."""
    n = range(len(buffers))
    size = [b.size for b in buffers]
    life = [b.end - b.start for b in buffers]
    return [
        sorted(n, key=lambda i: (-size[i], -life[i], i)),
        sorted(n, key=lambda i: (-size[i] * life[i], i)),
        sorted(n, key=lambda i: (-life[i], -size[i], i)),
        sorted(n, key=lambda i: (buffers[i].start, -size[i], i)),
        sorted(n, key=lambda i: (-buffers[i].end, -size[i], i)),
    ]


def _place(buffers: list[LiveRange], order: list[int], meets: Rows) -> tuple[list[int], int]:
    """First fit in the given order: every buffer at the lowest offset where no placed neighbour lies."""
    offsets = [-1] * len(buffers)
    placed: list[tuple[int, int, int]] = []  # by offset: first byte, end, number
    low, high = np.full((2, len(buffers)), NEVER, np.int64)
    top = 0
    for i in order:
        row, size = meets[i], buffers[i].size
        if not isinstance(row, bytes):
            near = sorted((offsets[j], offsets[j] + buffers[j].size) for j in row if offsets[j] >= 0)
            at = _gap(near, size)
        elif len(buffers) < MANY:
            at = _gap(((low, high) for low, high, j in placed if row[j]), size)
        else:
            at = _gap_among(np.frombuffer(row, np.bool_), low, high, size)
        offsets[i] = low[i] = at
        high[i] = at + size
        if len(buffers) < MANY:
            insort(placed, (at, at + size, i))
        top = max(top, at + size)
    return offsets, top


def _gap(near: Iterable[tuple[int, int]], size: int) -> int:
    """The lowest offset at which so many bytes are free between neighbours in the order of their offsets."""
    at = 0
    for low, high in near:
        if at + size <= low:
            break
        at = max(at, high)
    return at


def _gap_among(row: Mask, low: Vector, high: Vector, size: int) -> int:
    """The same among many at once; those that are not placed yet are at no offset."""
    first, end = low[row], high[row]
    order = np.argsort(first, kind="stable")
    free = np.append(0, np.maximum.accumulate(end[order]))
    return int(free[np.argmax(free + size <= np.append(first[order], NEVER))])


def _improve(
    buffers: list[LiveRange], meets: Rows, best: tuple[int, list[int], list[int]], bound: int
) -> tuple[int, list[int], list[int]]:
    """Move the buffers that reach the top to earlier places in the order, a counted number of times."""
    for step in range(min(SEARCH_STEPS, SEARCH_WORK // len(buffers) ** 2)):
        top, offsets, order = best
        if top == bound:
            break
        high = [i for i in order if offsets[i] + buffers[i].size == top]
        culprit = high[step % len(high)]
        place = order.index(culprit)
        target = place * (step % 7) // 7
        moved = order[:place] + order[place + 1 :]
        moved.insert(target, culprit)
        new_offsets, new_top = _place(buffers, moved, meets)
        if new_top <= top:
            best = (new_top, new_offsets, moved)
    return best


def _cuts(buffers: list[LiveRange], period: int | None) -> int:
    """How many cycles there are in which a life begins or ends."""
    return len({t for b in buffers for piece in _pieces(b, period) for t in piece})


def sections(buffers: list[LiveRange], period: int | None) -> tuple[Mask, Vector]:
    """Stretches of time between starts and ends: which buffers are live in each, and how long each is."""
    pieces = [_pieces(b, period) for b in buffers]
    times = sorted({t for parts in pieces for piece in parts for t in piece})
    place = {t: n for n, t in enumerate(times)}
    live = np.zeros((len(times) - 1, len(buffers)), bool)
    for number, parts in enumerate(pieces):
        for start, end in parts:
            live[place[start] : place[end], number] = True
    at = np.array(times, np.int64)
    return live, at[1:] - at[:-1]


def _exact(
    buffers: list[LiveRange], period: int | None, best: tuple[int, list[int], list[int]], bound: int
) -> tuple[int, list[int], bool]:
    """Search for a plan as small as the bound, then for sizes between what fails and the best that is known; not where the
    steps would not place all buffers once."""
    top, offsets = best[:2]
    if len(buffers) > EXACT_STEPS or len(buffers) ** 2 * _cuts(buffers, period) > EXACT_WORK:
        return top, offsets, False
    live, weights = sections(buffers, period)
    sizes = [b.size for b in buffers]
    line = gcd(*sizes)
    failed, ruled_out = bound - line, bound - line
    for n in range(EXACT_SIZES):
        last = n == EXACT_SIZES - 1  # then only whether less is possible at all
        capacity = top - line if last else bound if not n else (failed + top) // 2 // line * line
        if capacity <= failed:
            break
        most = FURTHER_STEPS if n else EXACT_STEPS
        found = search(sizes, live, weights, capacity, min(most, EXACT_WORK // live.size))
        if found.offsets is not None:
            offsets = found.offsets
            top = max(o + size for o, size in zip(offsets, sizes, strict=True))
        else:
            failed = capacity
            ruled_out = capacity if found.proved else ruled_out
    return top, offsets, top in (bound, ruled_out + line)
