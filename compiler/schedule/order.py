"""Schedules: several orders are tried, once for the latency and once for every period, and the best is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
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
PERIODS = 12  # periods tried
FINER = 33  # each longer than the one before by this part


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
    many cycles the next inference may begin."""

    tiles: list[Tile]
    needs: Needs
    done: Schedule
    interval: int


def schedule(
    tiles: list[Tile],
    data: list[list[int]],
    chains: list[list[Step]],
    machine: Machine,
    space: Space,
    repeat: bool = True,
) -> Attempt:
    """The best schedule found with a counted number of attempts. ``repeat``: also look for a period below the latency."""
    given = problem(tiles, data, chains, space)
    placed = _improved(given, machine, [_jobs(rank, given) for rank in rankings(tiles, data, chains)])
    interval = max(1, placed.latency)
    if repeat:
        placed, interval = _repeated(given, machine, placed)
    return _attempt(tiles, given, placed, interval, space.lines)


def _improved(given: Problem, machine: Machine, ranks: list[list[int]]) -> Placement:
    """Forward passes, each in the order of the latest starts that the one before leaves."""
    best = min((Insertion(given, machine, rank).run() for rank in ranks), key=lambda placed: placed.latency)
    placed, failed = best, 0
    for _ in range(ROUNDS):
        placed = Insertion(given, machine, _urgency(given, latest(given, placed))).run()
        if placed.latency < best.latency:
            best, failed = placed, 0
        else:
            failed += 1
        if failed == PATIENCE:
            break
    return best


def _repeated(given: Problem, machine: Machine, once: Placement) -> tuple[Placement, int]:
    """The same order for a short period: what the period costs in latency is weighed against what it gains."""
    late = latest(given, once)
    rank = _urgency(given, late)
    least = _busiest(given, machine, once)
    best, period = once, max(once.latency, 1)
    wanted = least
    for _ in range(PERIODS):
        if wanted >= period or wanted * once.latency >= _cost(once, least, best, period) - least * once.latency:
            break
        try:
            placed = Insertion(given, machine, rank, wanted, late).run()
        except TooShort as short:
            wanted = max(short.needed, wanted + max(1, wanted // FINER))
            continue
        if _cost(once, least, placed, wanted) < _cost(once, least, best, period):
            best, period = placed, wanted
        wanted += max(1, wanted // FINER)
    return best, period


def _cost(once: Placement, least: int, placed: Placement, period: int) -> int:
    """Latency and period, each relative to the least that is known of it (the sum, times both)."""
    return placed.latency * least + period * once.latency


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


def _attempt(tiles: list[Tile], given: Problem, placed: Placement, interval: int, lines: int) -> Attempt:
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
    needs = Needs(
        [sorted({number[b] for b in given.data[n]}) for n in keep], [[number[b] for b in tiles[n].after] for n in keep]
    )
    return Attempt(left, needs, _done(left, [placed.start[n] for n in keep], placed.latency, lines), interval)


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
