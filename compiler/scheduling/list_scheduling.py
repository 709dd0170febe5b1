"""Schedules: several orders are tried for the latency, then IIs at which the best repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.isa import Machine
from compiler.scheduling.alap import alap_times
from compiler.scheduling.dependences import Edges
from compiler.scheduling.initiation_interval import Repeated, repeated
from compiler.scheduling.modulo_scheduler import InfeasibleII, ModuloScheduler, Placement
from compiler.scheduling.priorities import Ranks, critical_path, depth_first, graph_order, sequence, staggered, urgency
from compiler.scheduling.problem import Problem, problem
from compiler.tiling.budget import passes
from compiler.tiling.chains import Step
from compiler.tiling.space import Space
from compiler.tiling.tile import EMPTY, Array, Span, Tile

ROUNDS = 8  # passes that may improve the latency
PATIENCE = 2  # and how many of them may fail in a row
TOGETHER = 1 << 10  # tiles whose lines are gone through at once


@dataclass
class Schedule:
    """``start``: issue cycle per tile. ``latency``: cycle after the last byte was written. ``ready``/``read_end``: per
    line of the space, when its last write can be read and when its last read ends; ``first``: when it was first written."""

    start: list[int]
    latency: int
    first: np.ndarray[Any, Any]
    ready: np.ndarray[Any, Any]
    read_end: np.ndarray[Any, Any]


@dataclass
class Needs:
    """``data``: tiles whose results (or weights) a tile uses, with the cycles from start to start that it waits at least.
    ``anti_dependences``: likewise tiles that must have read what it overwrites, or have written where it also writes."""

    data: Sequence[Edges]
    anti_dependences: Sequence[Edges]


@dataclass
class Attempt:
    """A finished schedule: the tiles that are left, on their units, what they wait for, when they start, after how
    many cycles the next inference may begin, and how many arenas inferences take in turn."""

    tiles: list[Tile]
    needs: Needs
    done: Schedule
    interval: int
    copies: int = 1


class Order:
    """Tiles to be ordered, and their shortest schedule. ``strips``: of what source operations are; ``grouped``: some of them are
    groups of channels. ``low_latency``: latency counts, not the interval alone."""

    def __init__(
        self,
        tiles: list[Tile],
        data: list[Edges],
        chains: list[list[Step]],
        machine: Machine,
        space: Space,
        strips: Sequence[int] = (),
        grouped: bool = False,
        low_latency: bool = True,
    ) -> None:
        self.tiles, self.machine, self.lines = tiles, machine, space.lines
        self.problem = problem(tiles, data, chains, space, grouped, low_latency)
        between = staggered(tiles, data, strips, grouped)
        ways: list[Callable[[], Ranks]] = [
            lambda: critical_path(tiles, data, chains),
            lambda: depth_first(tiles, data, chains),
            *([] if between is None else [lambda: between]),
            lambda: graph_order(tiles),
        ]
        self.once = _improved(self.problem, machine, ways)

    def single(self) -> Attempt:
        """The schedule of an inference that none overlaps."""
        return self._attempt(Repeated(self.once, max(1, self.once.latency), 1))

    def repeated(self, copies: int, objective: str, longest: int) -> Attempt:
        """A schedule for inferences that overlap, with at most ``copies`` arenas. ``objective``: one of ``OBJECTIVES``;
        ``longest``: the latency that "interval" may cost."""
        return self._attempt(repeated(self.problem, self.machine, self.once, copies, objective, longest))

    def _attempt(self, found: Repeated) -> Attempt:
        placed = found.placed
        left, needs = _kept(self.tiles, self.problem, placed)
        done = _done(left, [cycle for cycle in placed.start if cycle >= 0], placed.latency, self.lines)
        return Attempt(left, needs, done, found.ii, found.copies)


def _improved(given: Problem, machine: Machine, ways: list[Callable[[], Ranks]]) -> Placement:
    """Forward passes, each in the order of the latest starts that the one before leaves; then one in the last order. ``ways``:
    to say what goes first, which the longest programs do not ask for."""
    allowed = passes(len(given.beats), len(ways) + ROUNDS)
    best = ModuloScheduler(given, machine, sequence(ways[0](), given)).run()
    for way in ways[1:-1][: allowed - 1]:
        best = _shorter(given, machine, sequence(way(), given), best) or best
    placed, failed = best, 0
    left = allowed - len(ways)
    while left > 0 and failed < PATIENCE:
        left -= 1
        jobs = urgency(alap_times(given, placed), given)
        if not left or failed + 1 == PATIENCE:  # what is no shorter is of no use
            placed = _shorter(given, machine, jobs, best) or placed
        else:
            placed = ModuloScheduler(given, machine, jobs).run()
        failed = 0 if placed.latency < best.latency else failed + 1
        best = placed if placed.latency < best.latency else best
    return (_shorter(given, machine, sequence(ways[-1](), given), best) or best) if allowed >= len(ways) else best


def _shorter(given: Problem, machine: Machine, jobs: list[int], best: Placement) -> Placement | None:
    """A pass that ends earlier than the best so far; it is left as soon as it cannot."""
    try:
        return ModuloScheduler(given, machine, jobs, limit=best.latency - 1).run()
    except InfeasibleII:
        return None


def _kept(tiles: list[Tile], given: Problem, placed: Placement) -> tuple[list[Tile], Needs]:
    """Tiles on their units, without the LOADWs whose weights are there already."""
    keep = [n for n in range(len(tiles)) if placed.start[n] >= 0]
    number = {old: new for new, old in enumerate(keep)}
    number |= {old: number[serving] for old, serving in placed.serves.items()}
    left = []
    for n in keep:
        tile, unit = tiles[n], placed.instance[n]
        i = tile.instruction
        if n in placed.slot:
            i = i.on(unit, placed.slot[n], i.row + placed.row.get(n, 0))
        elif unit != i.unit:
            i = i.on(unit, i.slot, i.row)
        left.append(tile.on(i))
    return left, Needs(_Kept(given.data, keep, number), _anti_dependences(given, placed, number, len(keep)))


def _anti_dependences(given: Problem, placed: Placement, number: dict[int, int], count: int) -> list[Edges]:
    """By the ``count`` tiles that are left the others whose memory they take over; ``number``: what tiles are now called."""
    found: list[Edges] = [{} for _ in range(count)]
    for b, overwriting in given.anti_dependences.items():
        for n, gap in overwriting:
            found[number[n]][number[b]] = gap
    start = placed.start
    for n, output_dependences in given.output_dependences.items():
        for b, behind, _ in output_dependences:
            if start[b] < start[n]:
                found[number[n]][number[b]] = max(behind, found[number[n]].get(number[b], 1))
    return found


class _Kept(Sequence[Edges]):
    """What the tiles that are left need, by their new numbers, worked out for those that are asked for."""

    def __init__(self, data: list[Edges], keep: list[int], number: dict[int, int]) -> None:
        self._data, self._keep, self._number = data, keep, number

    def __len__(self) -> int:
        return len(self._keep)

    def __getitem__(self, n: Any) -> Any:
        number = self._number
        return {number[b]: lag for b, lag in self._data[self._keep[n]].items()}


def _done(tiles: list[Tile], start: list[int], latency: int, lines: int) -> Schedule:
    """When every line is written and read."""
    first = np.full(lines, np.iinfo(np.int64).max)
    ready, read_end = np.zeros(lines, np.int64), np.zeros(lines, np.int64)
    for at in range(0, len(tiles), TOGETHER):
        some, cycles = tiles[at : at + TOGETHER], start[at : at + TOGETHER]
        where, _, end = _used([(c, i.span) for t, c in zip(some, cycles, strict=True) for i in t.inputs])
        np.maximum.at(read_end, where, end)
        where, begun, end = _used([(c, t.writes) for t, c in zip(some, cycles, strict=True)])
        np.maximum.at(ready, where, end)
        np.minimum.at(first, where, begun)
    return Schedule(start, latency, first, ready, read_end)


def _used(work: list[tuple[int, Span]]) -> tuple[Array, Array, Array]:
    """Lines of spans that begin at these cycles, and by line when the instruction starts and when it is done there."""
    where, ends = (np.concatenate([EMPTY.lines, *(part[k] for _, part in work)]) for k in (0, 2))
    begun = np.repeat([cycle for cycle, _ in work], [len(span.lines) for _, span in work]).astype(np.int64)
    return where, begun, begun + ends
