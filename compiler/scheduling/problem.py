"""What a schedule has to respect, worked out once for all passes over the tiles: plain numbers and lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from compiler.scheduling.dependences import Edges, gap
from compiler.scheduling.planes import Block
from compiler.tiling.chains import Step
from compiler.tiling.space import Buffer, Space
from compiler.tiling.tile import Tile

PLANES = ("weights", "matrix")
TOGETHER = 1 << 10  # tiles whose lines are gone through at once
SHORT = 2  # part of their load's cycles that products take for which weights are kept
MANY = 4  # blocks of the same weights
Array = np.ndarray[Any, Any]


@dataclass
class Problem:
    """Tiles by number; a job is a tile or (from ``len(beats)`` on) a chain.

    ``end``: cycles from issue until all that is written can be read. ``users``: tiles that read it (true dependences),
    ``anti_dependences``: tiles that overwrite what it reads, each with the cycles from start to start. ``tail``: cycles from its
    start to the end of all that is computed from it, at least. ``output_dependences``: tiles that write to a line that it also
    writes, with the cycles by which it has to start later, or else those by which the other has to. ``begins``, ``ends``: buffers
    whose live range it may begin or end (True: when it has written, False: when it has read). ``names``, ``moves``: per buffer;
    one that moves lies elsewhere for the next inference. ``rows``: accumulator rows by chain. ``grouped``: what sums add up
    comes group by group. ``low_latency``: latency counts, not the interval alone.
    """

    unit: list[str]
    beats: list[int]
    latency: list[int]
    end: list[int]
    data: list[Edges]
    users: list[list[tuple[int, int]]]
    anti_dependences: dict[int, list[tuple[int, int]]]
    tail: list[int]
    output_dependences: dict[int, tuple[tuple[int, int, int], ...]]
    begins: list[list[int]]
    ends: list[list[tuple[int, bool]]]
    names: list[str]
    moves: list[bool]
    chains: list[list[Step]]
    blocks: list[list[Block]]
    rows: list[int]
    jobs: list[int]
    waiting: list[int]
    followers: list[list[int]]
    grouped: bool = False
    low_latency: bool = True

    @property
    def buffers(self) -> int:
        return len(self.names)

    @cached_property
    def after(self) -> list[list[tuple[int, int]]]:
        """Per tile all that have to start so many cycles behind it: who reads it and who overwrites what it reads. Products are
        left out of what waits for their own LOADW: they are given a place together."""
        after = self.users.copy()
        for chain in self.chains:
            for step in chain:
                after[step.load] = []
        for n, overwriting in self.anti_dependences.items():
            after[n] = [*after[n], *overwriting]
        return after

    @cached_property
    def kept(self) -> Counter[Hashable]:
        """By weights of many blocks whose products are much shorter than their load: how many blocks. None where the interval is
        all that counts: then slots are short, and what is kept keeps them from others."""
        if not self.low_latency:
            return Counter()
        used = Counter(block.weights for chain in self.blocks for block in chain if block.beats * SHORT <= block.load)
        return Counter({weights: count for weights, count in used.items() if count >= MANY})

    @cached_property
    def mated(self) -> list[list[list[tuple[int, int]]]]:
        """Per chain and step its products that have mates, each with the cycles behind the first product."""
        return [[self._mated(step.uses) for step in chain] for chain in self.chains]

    def _mated(self, uses: list[int]) -> list[tuple[int, int]]:
        if self.output_dependences.keys().isdisjoint(uses):
            return []
        starts = accumulate((self.beats[use] for use in uses[:-1]), initial=0)
        return [(use, start) for use, start in zip(uses, starts, strict=True) if use in self.output_dependences]

    @property
    def classes(self) -> list[str]:
        """Units that take one tile at a time, whatever it is."""
        return sorted(set(self.unit) - set(PLANES))


def problem(
    tiles: list[Tile],
    data: list[Edges],
    chains: list[list[Step]],
    space: Space,
    grouped: bool = False,
    low_latency: bool = True,
) -> Problem:
    """Everything about ``tiles`` that no order changes; ``data``: for each tile those whose results it uses."""
    users, anti_dependences = _successors(tiles, data)
    buffers = [b for b in space.buffers.values() if b.kind != "constant" and b.size]
    begins, ends = _live_ranges(tiles, buffers)
    jobs, waiting, followers = _jobs(tiles, data, chains)
    end = [t.end for t in tiles]
    return Problem(
        [t.unit[0] for t in tiles],
        [t.beats for t in tiles],
        [t.latency for t in tiles],
        end,
        data,
        users,
        anti_dependences,
        _tails(tiles, users, end),
        _output_dependences(tiles),
        begins,
        ends,
        [b.name for b in buffers],
        [b.kind == "arena" for b in buffers],
        chains,
        _blocks(tiles, chains),
        [_rows(chain, tiles) for chain in chains],
        jobs,
        waiting,
        followers,
        grouped,
        low_latency,
    )


def _successors(
    tiles: list[Tile], data: list[Edges]
) -> tuple[list[list[tuple[int, int]]], dict[int, list[tuple[int, int]]]]:
    """Per tile those that read its result, and by tile those that overwrite what it reads, with cycles from start to start."""
    users: list[list[tuple[int, int]]] = [[] for _ in tiles]
    anti_dependences: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for n, before in enumerate(data):
        for b, lag in before.items():
            users[b].append((n, lag))
        for b in tiles[n].after:
            anti_dependences[b].append((n, gap(tiles[b].reads, tiles[n].writes)))
    return users, dict(anti_dependences)


def _tails(tiles: list[Tile], users: list[list[tuple[int, int]]], end: list[int]) -> list[int]:
    """The longest ways to an end, but not through LOADWs: they are left out where their weights are there already."""
    tail = list(end)
    loads = [tile.unit[0] == "weights" for tile in tiles]
    for n in range(len(tiles) - 1, -1, -1):
        for user, lag in users[n]:
            if user > n and not loads[user] and lag + tail[user] > tail[n]:
                tail[n] = lag + tail[user]
    return tail


def _blocks(tiles: list[Tile], chains: list[list[Step]]) -> list[list[Block]]:
    """Every step of every chain; weights and kinds are told apart by numbers, which are compared faster than what they mean."""
    weights: dict[tuple[int, ...], int] = {}
    kinds: dict[tuple[int, int, int], int] = {}

    def block(step: Step) -> Block:
        load, beats = tiles[step.load], sum(tiles[use].beats for use in step.uses)
        number = weights.setdefault(step.weights, len(weights))
        kind = kinds.setdefault((beats, load.beats, load.latency), len(kinds))
        return Block(number, beats, load.beats, load.latency, kind)

    return [[block(step) for step in chain] for chain in chains]


def _rows(chain: list[Step], tiles: list[Tile]) -> int:
    """Accumulator rows that a chain holds at a time."""
    last = [tiles[use].instruction for use in chain[0].uses]
    return max(i.row + i.count1 for i in last)


def _jobs(
    tiles: list[Tile], data: list[Edges], chains: list[list[Step]]
) -> tuple[list[int], list[int], list[list[int]]]:
    job = list(range(len(tiles)))
    for number, chain in enumerate(chains):
        for step in chain:
            for n in (step.load, *step.uses):
                job[n] = len(tiles) + number
    total = len(tiles) + len(chains)
    after: list[dict[int, None]] = [{} for _ in range(total)]
    for n, tile in enumerate(tiles):
        own = job[n]
        for b in (*data[n], *tile.after):
            if job[b] != own:
                after[job[b]][own] = None
    waiting = [0] * total
    for followers in after:
        for follower in followers:
            waiting[follower] += 1
    return sorted(set(job)), waiting, [list(f) for f in after]


def _output_dependences(tiles: list[Tile]) -> dict[int, tuple[tuple[int, int, int], ...]]:
    """Tiles that write a line in common. A line holds few results' borders, so pairs are few."""
    writers = [n for n, t in enumerate(tiles) if len(t.writes.lines)]
    if not writers:
        return {}
    lines, begin, end = (np.concatenate([tiles[n].writes[part] for n in writers]) for part in range(3))
    owner = np.repeat(np.array(writers), [len(tiles[n].writes.lines) for n in writers])
    order = np.argsort(lines, kind="stable")
    lines, owner = lines[order], owner[order]
    met = np.append(False, lines[1:] == lines[:-1])
    shared = met | np.append(met[1:], False)
    lines, owner, order = lines[shared], owner[shared], order[shared]
    begin, end = begin[order], end[order]
    found: list[tuple[Array, Array, Array]] = []
    apart = 1
    while len(one := np.flatnonzero(lines[apart:] == lines[:-apart])):
        other = one + apart
        found.append((owner[one] * len(tiles) + owner[other], end[one] - begin[other], end[other] - begin[one]))
        apart += 1
    return _paired(found, len(tiles)) if found else {}


def _paired(found: list[tuple[Array, Array, Array]], tiles: int) -> dict[int, tuple[tuple[int, int, int], ...]]:
    """By tile its mates, from pairs (the first's number times ``tiles`` and the other's) with the cycles from the first to the
    other and back, line by line."""
    pair, there, back = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(pair, kind="stable")
    pair, there, back = pair[order], there[order], back[order]
    first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
    behind, ahead = (np.maximum(np.maximum.reduceat(gap, first), 1).tolist() for gap in (there, back))
    output_dependences: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, forth, to in zip(pair[first].tolist(), behind, ahead, strict=True):
        one, other = divmod(number, tiles)
        output_dependences[one].append((other, to, forth))
        output_dependences[other].append((one, forth, to))
    return {n: tuple(several) for n, several in output_dependences.items()}


def _live_ranges(tiles: list[Tile], buffers: list[Buffer]) -> tuple[list[list[int]], list[list[tuple[int, bool]]]]:
    """Per tile the positions of the buffers whose lives it may begin and end: a state's begins when it is read, and ends when
    its next value, which may be read where it was written, is used no more."""
    borders = np.array([b.first_line for b in buffers], np.int64)
    states = {n for n, b in enumerate(buffers) if b.kind == "state"}
    written = _touched([[tile.writes.lines] for tile in tiles], borders)
    read = _touched([[i.span.lines for i in tile.inputs] for tile in tiles], borders)
    changed = {b for writes in written for b in writes}
    pairs = list(zip(written, read, strict=True))
    return [_begun(*pair, states) for pair in pairs], [_ended(*pair, changed) for pair in pairs]


def _begun(writes: list[int], reads: list[int], states: set[int]) -> list[int]:
    """Buffers whose lives a tile may begin."""
    return [*(b for b in writes if b not in states), *(b for b in reads if b in states)]


def _ended(writes: list[int], reads: list[int], changed: set[int]) -> list[tuple[int, bool]]:
    """Buffers whose lives a tile may end, and whether with all of its latency; what nobody writes has none."""
    return [*((b, True) for b in writes), *((b, False) for b in reads if b in changed)]


def _touched(lines: list[list[Array]], borders: Array) -> list[list[int]]:
    """Positions of the buffers that each of several groups of stretches of ascending lines touches."""
    some = [(n, stretch) for n, group in enumerate(lines) for stretch in group if len(stretch)]
    found: list[set[int]] = [set() for _ in lines]
    for at in range(0, len(some), TOGETHER):
        here = some[at : at + TOGETHER]
        owner = np.searchsorted(borders, np.concatenate([stretch for _, stretch in here]), "right") - 1
        ends = np.cumsum([len(stretch) for _, stretch in here])
        starts = np.append(0, ends[:-1])
        for (n, _), low, high, start, end in zip(
            here, owner[starts].tolist(), owner[ends - 1].tolist(), starts.tolist(), ends.tolist(), strict=True
        ):
            found[n].update((low,) if low == high else owner[start:end].tolist())
    return [sorted(positions) for positions in found]
