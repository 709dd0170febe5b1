"""Start cycles: list scheduling of tiles in unbounded memory, event by event.

Planes and their weight ports work through their tiles in the order in which chains were dealt to them; all other units take
the ready tile with the longest path to the end. A tile starts when its unit is free, what it reads is there, and
no line that it writes is still to be read or written by others: the same rules that the simulator enforces.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.isa.machine import UNIT_CLASSES
from compiler.schedule.chains import Order, Rehearsal, Step

if TYPE_CHECKING:
    from compiler.isa.machine import Machine
    from compiler.schedule.tile import Tile

IN_ORDER = ("weights", "matrix")


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


def dependencies(tiles: list[Tile], roots: dict[str, tuple[str, ...]], chains: list[list[Step]]) -> list[list[int]]:
    """For every tile the tiles whose results it reads (by lines), and the LOADW of its weights."""
    written: dict[str, list[int]] = defaultdict(list)
    for number, tile in enumerate(tiles):
        if tile.output:
            written[tile.output].append(number)
    tables = {value: _table(tiles, numbers) for value, numbers in written.items()}
    load = {use: step.load for chain in chains for step in chain for use in step.uses}
    found: list[list[int]] = []
    for number, tile in enumerate(tiles):
        wanted: set[int] = set()
        for value, lines in tile.inputs:
            for root in roots[value]:
                if root in tables:
                    wanted.update(_writers(tables[root], lines))
        if number in load:
            wanted.add(load[number])
        wanted.update(tile.behind)
        wanted.discard(number)
        found.append(sorted(wanted))
    return found


def _table(tiles: list[Tile], numbers: list[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(line, writer) pairs sorted by line."""
    lines = np.concatenate([tiles[n].writes for n in numbers])
    writers = np.repeat(np.array(numbers), [len(tiles[n].writes) for n in numbers])
    order = np.argsort(lines, kind="stable")
    return lines[order], writers[order]


def _writers(table: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]], lines: np.ndarray[Any, Any]) -> list[int]:
    keys, writers = table
    low = np.searchsorted(keys, lines, "left")
    high = np.searchsorted(keys, lines, "right")
    if len(lines) and lines[-1] - lines[0] == len(lines) - 1:
        return [int(n) for n in np.unique(writers[low[0] : high[-1]])]
    marks = np.zeros(len(keys) + 1, np.int64)
    np.add.at(marks, low, 1)
    np.add.at(marks, high, -1)
    return [int(n) for n in np.unique(writers[np.cumsum(marks[:-1]) > 0])]


def tails(tiles: list[Tile], data: list[list[int]]) -> list[int]:
    """Cycles from a tile's start to the end of everything that needs it, if no unit were ever busy."""
    result = [t.beats + t.latency for t in tiles]
    for number in range(len(tiles) - 1, -1, -1):
        for before in data[number]:
            span = tiles[before].beats + tiles[before].latency + result[number]
            if span > result[before]:
                result[before] = span
    return result


class _Run:
    """One pass of the event loop."""

    def __init__(self, tiles: list[Tile], needs: Needs, rank: list[tuple[int, ...]], order: Order, lines: int):
        self.tiles, self.rank = tiles, rank
        self.start = [-1] * len(tiles)
        self.ready = np.zeros(lines, np.int64)
        self.read_end = np.zeros(lines, np.int64)
        self.first = np.full(lines, np.iinfo(np.int64).max)
        self.units = sorted({t.unit for t in tiles if t.unit[1] >= 0}, key=lambda u: (UNIT_CLASSES.index(u[0]), u[1]))
        self.number = {u: n for n, u in enumerate(self.units)}
        self.free = [0] * len(self.units)
        self.queue: list[list[int]] = [[] for _ in self.units]  # in-order units: tiles still to issue, reversed
        self.later: list[list[tuple[int, int]]] = [[] for _ in self.units]  # (earliest start, tile)
        self.now: list[list[tuple[tuple[int, ...], int]]] = [[] for _ in self.units]
        self.waiting = [len(a) + len(b) for a, b in zip(needs.data, needs.holds, strict=True)]
        self.users: list[list[int]] = [[] for _ in tiles]
        self.held: list[list[int]] = [[] for _ in tiles]
        self.earliest = [0] * len(tiles)
        self.events: list[tuple[int, int]] = []
        for number in range(len(tiles)):
            for before in needs.data[number]:
                self.users[before].append(number)
            for before in needs.holds[number]:
                self.held[before].append(number)
        for name, queues in zip(IN_ORDER, (order.loads, order.products), strict=True):
            for instance, queue in enumerate(queues):
                if queue:
                    self.queue[self.number[name, instance]] = queue[::-1]

    def run(self) -> Schedule:
        for number in range(len(self.tiles)):
            if not self.waiting[number]:
                self._offer(number)
        while self.events:
            cycle, unit = heapq.heappop(self.events)
            self._step(cycle, unit)
        assert min(self.start, default=0) >= 0, "tiles wait for each other"
        latency = max((s + t.latency + t.beats for s, t in zip(self.start, self.tiles, strict=True)), default=0)
        return Schedule(self.start, latency, self.first, self.ready, self.read_end)

    def _offer(self, number: int) -> None:
        """All that the tile needs has been issued: it may start from ``earliest`` on."""
        tile = self.tiles[number]
        unit = self.number[tile.unit]
        at = max(self.earliest[number], self.free[unit])
        if tile.unit[0] in IN_ORDER:
            if self.queue[unit] and self.queue[unit][-1] == number:
                heapq.heappush(self.events, (at, unit))
        else:
            heapq.heappush(self.later[unit], (self.earliest[number], number))
            heapq.heappush(self.events, (at, unit))

    def _step(self, cycle: int, unit: int) -> None:
        if cycle < self.free[unit]:
            return
        if self.units[unit][0] in IN_ORDER:
            self._step_in_order(cycle, unit)
            return
        later, now = self.later[unit], self.now[unit]
        while later and later[0][0] <= cycle:
            number = heapq.heappop(later)[1]
            heapq.heappush(now, (self.rank[number], number))
        while now:
            number = heapq.heappop(now)[1]
            at = self._legal(number, cycle)
            if at > cycle:
                heapq.heappush(later, (at, number))
                continue
            self._issue(number, cycle, unit)
            break
        if now or later:
            at = self.free[unit] if now else max(self.free[unit], later[0][0])
            heapq.heappush(self.events, (at, unit))

    def _step_in_order(self, cycle: int, unit: int) -> None:
        queue = self.queue[unit]
        if not queue or self.waiting[queue[-1]]:
            return
        number = queue[-1]
        at = max(self.earliest[number], self._legal(number, cycle))
        if at > cycle:
            heapq.heappush(self.events, (at, unit))
            return
        queue.pop()
        self._issue(number, cycle, unit)
        if queue and not self.waiting[queue[-1]]:
            heapq.heappush(self.events, (max(self.free[unit], self.earliest[queue[-1]]), unit))

    def _legal(self, number: int, cycle: int) -> int:
        """The first cycle from ``cycle`` on at which no line forbids the tile."""
        tile = self.tiles[number]
        at = cycle
        if len(tile.reads):
            at = max(at, int(self.ready[tile.reads].max()))
        if len(tile.writes):
            busy = max(int(self.ready[tile.writes].max()), int(self.read_end[tile.writes].max()))
            at = max(at, busy - tile.latency)
        return at

    def _issue(self, number: int, cycle: int, unit: int) -> None:
        tile = self.tiles[number]
        self.start[number] = cycle
        self.free[unit] = cycle + tile.beats
        end = cycle + tile.latency + tile.beats
        if len(tile.reads):
            self.read_end[tile.reads] = np.maximum(self.read_end[tile.reads], cycle + tile.beats)
        if len(tile.writes):
            self.ready[tile.writes] = end
            self.first[tile.writes] = np.minimum(self.first[tile.writes], cycle)
        for user in self.users[number]:
            self._answer(user, end)
        for user in self.held[number]:
            # issued after it, and writing begins only when it has read
            self._answer(user, cycle + max(1, tile.beats - self.tiles[user].latency))

    def _answer(self, user: int, earliest: int) -> None:
        self.waiting[user] -= 1
        self.earliest[user] = max(self.earliest[user], earliest)
        if not self.waiting[user]:
            self._offer(user)


Ranks = list[tuple[int, ...]]


def demand(data: list[list[int]]) -> list[int]:
    """Tiles numbered so that each comes just before what first needs it (depth first from the last tiles back)."""
    wanted = [True] * len(data)
    for before in data:
        for b in before:
            wanted[b] = False
    number = [-1] * len(data)
    count = 0
    for root in (n for n, last in enumerate(wanted) if last):
        stack = [(root, iter(data[root]))]
        seen = {root}
        while stack:
            tile, rest = stack[-1]
            following = next((b for b in rest if number[b] < 0 and b not in seen), None)
            if following is not None:
                seen.add(following)
                stack.append((following, iter(data[following])))
                continue
            stack.pop()
            if number[tile] < 0:
                number[tile] = count
                count += 1
    return number


def _accumulated(data: list[list[int]], chains: list[list[Step]]) -> list[list[int]]:
    """What tiles need, with the sums that a MATMUL adds to."""
    linked = list(data)
    for chain in chains:
        for step, following in pairwise(chain):
            for before, after in zip(step.uses, following.uses, strict=True):
                linked[after] = [*linked[after], before]
    return linked


def rankings(tiles: list[Tile], needs: list[list[int]], chains: list[list[Step]]) -> list[Ranks]:
    """Ways to say what goes first on a unit: the longest path to the end, or what the first outputs need first."""
    data = _accumulated(needs, chains)
    tail = tails(tiles, data)
    use = [len(tiles)] * len(tiles)
    for number in range(len(tiles) - 1, -1, -1):
        for before in data[number]:
            use[before] = min(use[before], number, use[number])
    deep = demand(data)
    longest: Ranks = [
        (use[n], -tail[n], n) if t.unit[0] == "link_in" else (-tail[n], use[n], n) for n, t in enumerate(tiles)
    ]
    first: Ranks = [(deep[n], n) for n in range(len(tiles))]
    return [longest, first]


@dataclass
class Attempt:
    """A finished schedule: the tiles that are left, on their units, what they wait for, when they start."""

    tiles: list[Tile]
    needs: Needs
    done: Schedule


def schedule(
    tiles: list[Tile], data: list[list[int]], chains: list[list[Step]], machine: Machine, lines: int
) -> Attempt:
    """The best of the schedules that the rankings lead to."""
    best: Attempt | None = None
    for rank in rankings(tiles, data, chains):
        attempt = _attempt([replace(t) for t in tiles], data, chains, rank, machine, lines)
        if best is None or attempt.done.latency < best.done.latency:
            best = attempt
    assert best is not None
    return best


def _attempt(
    tiles: list[Tile], data: list[list[int]], chains: list[list[Step]], rank: Ranks, machine: Machine, lines: int
) -> Attempt:
    """Deal the chains to the planes and start every tile."""
    order = Rehearsal(tiles, chains, data, rank, machine).run()
    keep = [n for n in range(len(tiles)) if n not in order.drop]
    place = {old: new for new, old in enumerate(keep)}
    place |= {old: place[instead] for old, instead in order.drop.items()}
    left = [tiles[n] for n in keep]
    needs = Needs(
        [sorted({place[b] for b in data[n]}) for n in keep],
        [[place[b] for b in (*tiles[n].after, *order.holds.get(n, ()))] for n in keep],
    )
    order.loads = [[place[n] for n in queue] for queue in order.loads]
    order.products = [[place[n] for n in queue] for queue in order.products]
    run = _Run(left, needs, [rank[n] for n in keep], order, lines)
    return Attempt(left, needs, run.run())
