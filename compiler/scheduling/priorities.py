"""Which tile goes first where several could."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from compiler.scheduling.dependences import Edges
from compiler.scheduling.problem import Problem
from compiler.tiling.chains import Step
from compiler.tiling.tile import Tile


def tails(tiles: list[Tile], data: list[Edges]) -> list[int]:
    """Cycles from a tile's start to the end of everything that needs it, if no unit were ever busy."""
    return _propagated([t.end for t in tiles], data)


def _leaving(tiles: list[Tile], data: list[Edges]) -> list[int]:
    """Likewise, where results leave one after another in the order of the tiles: what the first of them needs is urgent by
    all that leaves behind it."""
    result, behind = [t.end for t in tiles], 0
    for number in range(len(tiles) - 1, -1, -1):
        if tiles[number].unit[0] == "link_out":
            result[number] += behind
            behind += tiles[number].beats
    return _propagated(result, data)


def _propagated(result: list[int], data: list[Edges]) -> list[int]:
    """From the end back: at least what follows takes, and the cycles between."""
    for number in range(len(data) - 1, -1, -1):
        for before, lag in data[number].items():
            if lag + result[number] > result[before]:
                result[before] = lag + result[number]
    return result


Ranks = list[tuple[int, ...]]

LAST = 1 << 60  # behind everything
STAGES = ("matrix", "vector")
LAST_STAGES = 4  # in which strips follow each other: products and the normalisation of what leaves


def demand(data: list[Edges]) -> list[int]:
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


def _accumulated(tiles: list[Tile], data: list[Edges], chains: list[list[Step]]) -> list[Edges]:
    """What tiles need, with the sums that a MATMUL adds to."""
    linked = list(data)
    for chain in chains:
        for step, following in pairwise(chain):
            for before, after in zip(step.uses, following.uses, strict=True):
                linked[after] = {**linked[after], before: tiles[before].beats}
    return linked


def critical_path(tiles: list[Tile], needs: list[Edges], chains: list[list[Step]]) -> Ranks:
    """The longest path to the end goes first on a unit; what comes in is placed first, in the order in which it is wanted."""
    data = _accumulated(tiles, needs, chains)
    tail = _leaving(tiles, data)
    use = [len(tiles)] * len(tiles)
    for number in range(len(tiles) - 1, -1, -1):
        mine = min(use[number], number)
        for before in data[number]:
            if mine < use[before]:
                use[before] = mine
    top = max(tail, default=0) + 1
    return [(-top, use[n], n) if t.unit[0] == "link_in" else (-tail[n], use[n], n) for n, t in enumerate(tiles)]


def depth_first(tiles: list[Tile], needs: list[Edges], chains: list[list[Step]]) -> Ranks:
    """What the first outputs need goes first."""
    return [(number, n) for n, number in enumerate(demand(_accumulated(tiles, needs, chains)))]


def graph_order(tiles: list[Tile]) -> Ranks:
    """Operations as the graph has them."""
    return [(t.instruction.source, n) for n, t in enumerate(tiles)]


def staggered(tiles: list[Tile], data: list[Edges], strips: Sequence[int], deep: bool = False) -> Ranks | None:
    """An order in which every strip of rows is a stage behind the one before, so that planes have one while the vector unit has
    another; the last stages go strip by strip, because rows leave. ``strips``: which strip a source operation is; None where
    there are none. A stage is what one kind of unit does until the other has to go on. ``deep``: within one, what is needed first
    comes first, not operation after operation.
    """
    if not any(strips):
        return None
    stage = [0] * len(tiles)
    kinds = [tile.unit[0] if tile.unit[0] in STAGES else "" for tile in tiles]
    for n, before in enumerate(data):
        for b in before:
            stage[n] = max(stage[n], stage[b] + _turns(kinds[b], kinds[n]))
    last = max(stage) - LAST_STAGES
    sources = [tile.instruction.source for tile in tiles]
    when = [min(stage[n], last) + strips[source] for n, source in enumerate(sources)]
    _as_late(when, kinds, data)
    within = demand(data) if deep else sources
    return [(when[n], within[n], n) for n in range(len(tiles))]


def _turns(kind: str, following: str) -> bool:
    """Whether a kind of unit goes on with what another had."""
    return bool(kind and following) and kind != following


def _as_late(when: list[int], kinds: list[str], data: list[Edges]) -> None:
    """Move what is computed to the stage before that of its first reader, which is at the earliest that of all it reads."""
    for n, before in enumerate(data):
        when[n] = max(when[n], max((when[b] for b in before), default=0))
    late = [LAST] * len(when)
    for n in range(len(when) - 1, -1, -1):
        if late[n] == LAST:  # nobody reads it
            late[n] = when[n]
        elif kinds[n]:
            when[n] = max(when[n], late[n])
        for b in data[n]:
            late[b] = min(late[b], late[n] - _turns(kinds[b], kinds[n]))


def jobs(rank: Ranks | list[int], given: Problem) -> list[int]:
    """A tile's own rank; a chain's is that of the most urgent of its first products. Ranks as numbers from 0."""
    keys: list[Any] = list(rank)
    for chain in given.chains:
        uses = chain[0].uses
        keys.append(keys[uses[0]] if len(uses) == 1 else min([keys[use] for use in uses]))
    numbers = [0] * len(keys)
    for number, job in enumerate(sorted(range(len(keys)), key=keys.__getitem__)):
        numbers[job] = number
    return numbers


def urgency(late: list[int], given: Problem) -> list[int]:
    """Jobs in the order of latest starts."""
    count = len(late)
    return sequence([(start if start >= 0 else LAST) * count + n for n, start in enumerate(late)], given)


def sequence(ranks: Ranks | list[int], given: Problem) -> list[int]:
    """All jobs, each behind what it waits for: of those that could be next the one of the lowest rank."""
    rank, waiting = jobs(ranks, given), list(given.waiting)
    ready = [(rank[job], job) for job in given.jobs if not waiting[job]]
    heapq.heapify(ready)
    found = []
    while ready:
        job = heapq.heappop(ready)[1]
        found.append(job)
        for after in given.followers[job]:
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, (rank[after], after))
    return found
