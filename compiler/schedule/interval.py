"""The interval: the smallest period at which the schedule can be repeated, inference after inference.

A period is legal when no unit is busy for two inferences at once, no chain of accumulations or weight tile of one inference
falls into that of another on the same plane, every buffer is dead before the next inference writes it, and a state is
read only after the previous inference wrote it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.isa.machine import UNIT_CLASSES

if TYPE_CHECKING:
    from compiler.schedule.layout import Layout
    from compiler.schedule.memory import Lifetime
    from compiler.schedule.order import Schedule
    from compiler.schedule.space import Space
    from compiler.schedule.tile import Tile

Spans = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # starts and ends, sorted


def shortest(tiles: list[Tile], done: Schedule, lives: list[Lifetime], layout: Layout, space: Space) -> int:
    """The smallest legal period, at most the latency."""
    resources = _resources(tiles, done)
    low = max([int((ends - starts).sum()) for starts, ends in resources], default=1)
    low = max([low, 1, *(b.end - b.start for b in lives), _states(tiles, done, layout, space)])
    period = low
    while period < done.latency:
        clash = 0
        for starts, ends in resources:
            clash = _clash(starts, ends, period)
            if clash:
                break
        if not clash:
            return period
        period += clash
    return max(1, done.latency)


def _resources(tiles: list[Tile], done: Schedule) -> list[Spans]:
    """Everything that one inference at a time may hold: units, weight slots from load to last use, accumulators."""
    held: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    chains: dict[tuple[int, int], list[int]] = {}
    runs: dict[tuple[int, int], list[int]] = {}
    current: dict[int, int] = {}
    for start, number in sorted(zip(done.start, range(len(tiles)), strict=True), key=lambda pair: _issue(tiles, *pair)):
        tile = tiles[number]
        end = start + tile.beats
        name, instance = tile.unit
        held[name, instance, 0].append((start, end))
        if name == "weights":
            chains[instance, tile.chain] = [start, end, tile.instruction.slot]
        elif name == "matrix":
            chains[instance, tile.chain][1] = max(chains[instance, tile.chain][1], end)
            if tile.instruction.flags & 1 and tile.instruction.row == 0:
                current[instance] = number
            span = runs.setdefault((instance, current[instance]), [start, end])
            span[0], span[1] = min(span[0], start), max(span[1], end)
    for (plane, _), (start, end, slot) in chains.items():
        held["slot", plane, slot].append((start, end))
    for (plane, _), (start, end) in runs.items():
        held["accumulators", plane, 0].append((start, end))
    return [_sorted(spans) for _, spans in sorted(held.items())]


def _issue(tiles: list[Tile], start: int, number: int) -> tuple[int, int, int]:
    """Loads before the products that use them."""
    return start, UNIT_CLASSES.index(tiles[number].unit[0]), number


def _sorted(spans: list[tuple[int, int]]) -> Spans:
    array = np.array(sorted(spans), np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _clash(starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], period: int) -> int:
    """0 when the spans repeat without overlap, else by how much the period must grow at least.

    Two neighbours on the circle lie a number of turns apart. When the period grows by one, the gap between them grows by
    that number (the later span in time comes first on the circle) or shrinks until their order changes.
    """
    base, turn = starts % period, starts // period
    order = np.argsort(base, kind="stable")
    at, turn, length = base[order], turn[order], (ends - starts)[order]
    gap = np.append(at[1:], at[0] + period) - at
    turns = turn - np.append(turn[1:], turn[0] - 1)  # by how much the gap grows with the period
    over = length - gap
    hit = over > 0
    if not hit.any():
        return 0
    over, turns, gap, after = over[hit], turns[hit], gap[hit], np.append(length[1:], length[0])[hit]
    apart = np.where(turns > 0, -(-over // np.maximum(turns, 1)), -(-(gap + after) // np.maximum(-turns, 1)))
    return max(1, int(apart.max()))


def _states(tiles: list[Tile], done: Schedule, layout: Layout, space: Space) -> int:
    """From the first read of a state to the end of its last write, and from its first write to the end of its last read."""
    period = 1
    for name in layout.states:
        b = space.buffers[name]
        lines = (b.first_line, b.first_line + b.size // space.machine.line_bytes)
        reads = [s for t, s in zip(tiles, done.start, strict=True) if _within(t.reads, lines)]
        ends = [s + t.latency + t.beats for t, s in zip(tiles, done.start, strict=True) if _within(t.writes, lines)]
        if reads and ends:
            last = max(s + t.beats for t, s in zip(tiles, done.start, strict=True) if _within(t.reads, lines))
            begin = min(s + t.latency for t, s in zip(tiles, done.start, strict=True) if _within(t.writes, lines))
            period = max(period, max(ends) - min(reads), last - begin)
    return period


def _within(lines: np.ndarray[Any, Any], span: tuple[int, int]) -> bool:
    return bool(len(lines)) and bool(((lines >= span[0]) & (lines < span[1])).any())
