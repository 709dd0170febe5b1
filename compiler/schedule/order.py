"""Schedules: several orders are tried, once for the latency and once for every period, and the best is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.schedule.insert import Insertion, Placement, TooShort
from compiler.schedule.problem import Problem, problem
from compiler.schedule.rank import Ranks, rankings
from compiler.schedule.shift import latest
from compiler.schedule.track import ONCE

if TYPE_CHECKING:
    from compiler.isa.machine import Machine
    from compiler.schedule.chains import Step
    from compiler.schedule.space import Space
    from compiler.schedule.tile import Tile


ROUNDS = 8  # passes that may improve the latency
PATIENCE = 2  # and how many of them may fail in a row
PERIODS = 9  # periods tried
NEAR = 33  # the first of them: the busiest unit's cycles and this part of them
SLOWER = 12  # a part of the latency by which it may grow for the sake of the period


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
    """``data``: tiles whose results (or weights) a tile uses. ``holds``: tiles that must have read what it overwrites."""

    data: list[list[int]]
    holds: list[list[int]]


@dataclass
class Attempt:
    """A finished schedule: the tiles that are left, on their units, what they wait for, when they start, and after how
    many cycles the next inference may begin.

    ``least``: cycles that the busiest unit works. ``once``, ``lives``: starts of the tiles that were given (-1: dropped) and
    first and last cycle of every buffer, in the shortest schedule that is not repeated.
    """

    tiles: list[Tile]
    needs: Needs
    done: Schedule
    interval: int
    least: int = 0
    once: list[int] = field(default_factory=list)
    lives: dict[str, tuple[int, int]] = field(default_factory=dict)


def schedule(
    tiles: list[Tile],
    data: list[list[int]],
    chains: list[list[Step]],
    machine: Machine,
    space: Space,
    repeat: bool = True,
    due: Mapping[int, int] | None = None,
) -> Attempt:
    """The best schedule found with a counted number of attempts. ``repeat``: also look for a period below the latency;
    ``due``: cycles from which on tiles may start that could wait longer."""
    given = problem(tiles, data, chains, space)
    release = [(due or {}).get(n, 0) for n in range(len(tiles))]
    once = _improved(given, machine, [_jobs(rank, given) for rank in rankings(tiles, data, chains)], release)
    placed, interval, least = once, max(1, once.latency), _busiest(given, machine, once)
    if repeat:
        placed, interval = _repeated(given, machine, once, least, due or {})
    lives = {name: (once.first[b], once.last[b]) for b, name in enumerate(given.names) if once.first[b] <= once.last[b]}
    left, needs = _kept(tiles, given, placed)
    done = _done(left, [cycle for cycle in placed.start if cycle >= 0], placed.latency, space.lines)
    return Attempt(left, needs, done, interval, least, once.start, lives)


def _improved(given: Problem, machine: Machine, ranks: list[list[int]], release: list[int]) -> Placement:
    """Forward passes, each in the order of the latest starts that the one before leaves."""
    best = min(
        (Insertion(given, machine, rank, ONCE, release).run() for rank in ranks), key=lambda placed: placed.latency
    )
    placed, failed = best, 0
    for _ in range(ROUNDS):
        placed = Insertion(given, machine, _urgency(given, latest(given, placed)), ONCE, release).run()
        if placed.latency < best.latency:
            best, failed = placed, 0
        else:
            failed += 1
        if failed == PATIENCE:
            break
    return best


def _repeated(
    given: Problem, machine: Machine, once: Placement, least: int, due: Mapping[int, int]
) -> tuple[Placement, int]:
    """The same order for the shortest period found that leaves the latency nearly as it is, by bisection."""
    late = latest(given, once, pinned=True)
    rank = _urgency(given, late)
    for n, cycle in due.items():
        late[n] = min(late[n], cycle)
    best, period, low = once, max(1, once.latency), least - 1
    wanted = least + least // NEAR
    for _ in range(PERIODS):
        if not low < wanted < period:
            break
        try:
            placed = Insertion(given, machine, rank, wanted, late).run()
        except TooShort:
            placed = None
        if placed is not None and placed.latency <= once.latency + once.latency // SLOWER:
            best, period = placed, wanted
        else:
            low = wanted
        wanted = (low + period) // 2
    return best, period


def _busiest(given: Problem, machine: Machine, placed: Placement) -> int:
    """Cycles that the busiest kind of unit works in one inference."""
    work: Counter[str] = Counter()
    for n, start in enumerate(placed.start):
        if start >= 0:
            work[given.unit[n]] += given.beats[n]
    return max((-(-beats // machine.unit(unit).instances) for unit, beats in work.items()), default=1)


def _jobs(rank: Ranks, given: Problem) -> list[int]:
    """A tile's own rank; a chain's is that of the most urgent of its first products. Ranks as numbers from 0."""
    keys = [*rank, *(min(rank[use] for use in chain[0].uses) for chain in given.chains)]
    numbers = [0] * len(keys)
    for number, job in enumerate(sorted(range(len(keys)), key=lambda job: (keys[job], job))):
        numbers[job] = number
    return numbers


def _urgency(given: Problem, late: list[int]) -> list[int]:
    """The order of latest starts."""
    return _jobs([(start if start >= 0 else ONCE, n) for n, start in enumerate(late)], given)


def _kept(tiles: list[Tile], given: Problem, placed: Placement) -> tuple[list[Tile], Needs]:
    """Tiles on their units, without the LOADWs whose weights are there already."""
    keep = [n for n in range(len(tiles)) if placed.start[n] >= 0]
    number = {old: new for new, old in enumerate(keep)}
    number |= {old: number[serving] for old, serving in placed.serves.items()}
    left = []
    for n in keep:
        instruction = tiles[n].instruction._replace(unit=placed.instance[n])
        if n in placed.slot:
            instruction = instruction._replace(slot=placed.slot[n], row=instruction.row + placed.row.get(n, 0))
        left.append(replace(tiles[n], instruction=instruction, unit=(tiles[n].unit[0], placed.instance[n])))
    data = [sorted({number[b] for b in given.data[n]}) for n in keep]
    return left, Needs(data, [[number[b] for b in tiles[n].after] for n in keep])


def _done(tiles: list[Tile], start: list[int], latency: int, lines: int) -> Schedule:
    """When every line is written and read."""
    first = np.full(lines, np.iinfo(np.int64).max)
    ready, read_end = np.zeros(lines, np.int64), np.zeros(lines, np.int64)
    for cycle, tile in zip(start, tiles, strict=True):
        if len(tile.reads):
            read_end[tile.reads] = np.maximum(read_end[tile.reads], cycle + tile.beats)
        if len(tile.writes):
            ready[tile.writes] = np.maximum(ready[tile.writes], cycle + tile.latency + tile.beats)
            first[tile.writes] = np.minimum(first[tile.writes], cycle)
    return Schedule(start, latency, first, ready, read_end)
