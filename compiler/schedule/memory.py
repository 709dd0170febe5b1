"""The memory plan: where each buffer of the arena lies while it is live.

Lifetimes are half-open cycle intervals of the finished schedule. With a period (back-to-back inferences) they wrap around
a circle. Two buffers whose lifetimes meet never share a byte. The bound is the largest sum of sizes that are live at once.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from math import gcd

import numpy as np

from compiler.schedule.offsets import Mask, Vector, search

Rows = list[bytes]  # by buffer, for every other one whether their lives meet

SEARCH_STEPS = 120  # improvement steps after the greedy orders; a count, never a time
SEARCH_WORK = 1 << 24  # and of hundreds of buffers fewer: each step looks at pairs of them
NEVER = 1 << 62
EXACT_WORK = 200_000_000  # of the exact search for each size of arena: its steps times buffers times sections
EXACT_STEPS = 2_000  # and never more steps than that
FURTHER_STEPS = 500  # of the sizes tried when the bound itself was not reached: what is found is found soon
EXACT_SIZES = 4  # sizes of arena that it tries


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``size`` bytes, live in the cycles ``[start, end)``."""

    name: str
    size: int
    start: int
    end: int


@dataclass(frozen=True)
class MemoryPlan:
    """Byte offsets inside the arena, its size, and the largest sum of live bytes (a proven lower bound).

    ``smallest``: no arena is smaller. Lifetimes that wrap around may need more than ever is live at once.
    """

    offsets: dict[str, int]
    arena: int
    bound: int
    smallest: bool = True


def plan(buffers: list[Lifetime], period: int | None = None) -> MemoryPlan:
    """Place ``buffers`` (sizes are multiples of a line); ``period`` makes lifetimes wrap, none may be longer than it."""
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


def live_bound(buffers: list[Lifetime], period: int | None = None) -> int:
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


def _pieces(b: Lifetime, period: int | None) -> list[tuple[int, int]]:
    if period is None:
        return [(b.start, b.end)]
    start = b.start % period
    end = start + (b.end - b.start)
    return [(start, end)] if end <= period else [(start, period), (0, end - period)]


def _meeting(buffers: list[Lifetime], period: int | None) -> Rows:
    """``[i][j]``: the lifetimes of i and j have a cycle in common, for i other than j. One row after the other: as bytes."""
    pieces = np.full((len(buffers), 2, 2), NEVER, np.int64)
    pieces[:, :, 1] = -1  # a life in one piece meets nothing with the other
    for number, b in enumerate(buffers):
        found = _pieces(b, period)
        pieces[number, : len(found)] = found
    start, end = pieces[:, :, 0], pieces[:, :, 1]
    rows = []
    for number in range(len(buffers)):
        hit = np.zeros(len(buffers), np.bool_)
        for low, high in pieces[number].tolist():
            hit |= ((start < high) & (low < end)).any(axis=1)
        hit[number] = False
        rows.append(hit.tobytes())
    return rows


def _orders(buffers: list[Lifetime]) -> list[list[int]]:
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


def _place(buffers: list[Lifetime], order: list[int], meets: Rows) -> tuple[list[int], int]:
    """First fit in the given order: every buffer at the lowest offset where no placed neighbour lies."""
    offsets = [-1] * len(buffers)
    placed: list[tuple[int, int, int]] = []  # by offset: first byte, end, number
    top = 0
    for i in order:
        row, size = meets[i], buffers[i].size
        at = 0
        for low, high, j in placed:
            if at + size <= low:
                break
            if high > at and row[j]:
                at = high
        offsets[i] = at
        insort(placed, (at, at + size, i))
        top = max(top, at + size)
    return offsets, top


def _improve(
    buffers: list[Lifetime], meets: Rows, best: tuple[int, list[int], list[int]], bound: int
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


def sections(buffers: list[Lifetime], period: int | None) -> tuple[Mask, Vector]:
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
    buffers: list[Lifetime], period: int | None, best: tuple[int, list[int], list[int]], bound: int
) -> tuple[int, list[int], bool]:
    """Search for a plan as small as the bound, then for sizes between what fails and the best that is known."""
    live, weights = sections(buffers, period)
    sizes = [b.size for b in buffers]
    line = gcd(*sizes)
    top, offsets = best[:2]
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
