"""Which plane does what, and in which order.

A chain is the passes over all K tiles that complete some rows of some columns; a step of it is one weight tile and the
MATMULs that use it. A first, rough schedule (no weight slots, no lines, planes as a pool) tells when chains become ready; in
that order, which is topological, they are dealt to the planes. A weight tile that a plane still holds is not loaded again.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.schedule.tile import Tile


@dataclass
class Step:
    """``load``: the LOADW tile; ``uses``: its MATMULs; both as tile numbers. ``weights``: what tells tiles apart."""

    load: int
    weights: tuple[int, ...]
    uses: list[int] = field(default_factory=list)


@dataclass
class Order:
    """Per plane the tiles in order of issue; ``drop``: LOADWs that are not needed, and the LOADW that serves instead."""

    loads: list[list[int]]
    products: list[list[int]]
    drop: dict[int, int]
    holds: dict[int, list[int]]  # LOADW -> MATMULs that must have read the slot


def rough(tiles: list[Tile], data: list[list[int]], rank: list[tuple[int, ...]], instances: dict[str, int]) -> list[int]:
    """Start cycles when only the number of units and the data limit."""
    waiting = [len(d) for d in data]
    users: list[list[int]] = [[] for _ in tiles]
    for number, before in enumerate(data):
        for b in before:
            users[b].append(number)
    start = [0] * len(tiles)
    earliest = [0] * len(tiles)
    free = {name: [0] * n for name, n in instances.items() if name != "weights"}
    later: dict[str, list[tuple[int, int]]] = {name: [] for name in free}
    now: dict[str, list[tuple[tuple[int, ...], int]]] = {name: [] for name in free}
    events: list[tuple[int, str]] = []

    def done(number: int) -> None:
        stack = [number]
        while stack:
            n = stack.pop()
            end = start[n] + tiles[n].latency + tiles[n].beats
            for user in users[n]:
                waiting[user] -= 1
                earliest[user] = max(earliest[user], end)
                if waiting[user]:
                    continue
                name = tiles[user].unit[0]
                if name == "weights":
                    start[user] = earliest[user]
                    stack.append(user)
                else:
                    heapq.heappush(later[name], (earliest[user], user))
                    heapq.heappush(events, (max(earliest[user], free[name][0]), name))

    ready = [n for n in range(len(tiles)) if not waiting[n]]
    for number in ready:
        name = tiles[number].unit[0]
        if name == "weights":
            done(number)
        else:
            heapq.heappush(later[name], (0, number))
            heapq.heappush(events, (0, name))
    while events:
        cycle, name = heapq.heappop(events)
        if cycle < free[name][0]:
            continue
        while later[name] and later[name][0][0] <= cycle:
            number = heapq.heappop(later[name])[1]
            heapq.heappush(now[name], (rank[number], number))
        while now[name] and free[name][0] <= cycle:
            number = heapq.heappop(now[name])[1]
            start[number] = cycle
            heapq.heapreplace(free[name], cycle + tiles[number].beats)
            done(number)
        if now[name] or later[name]:
            at = free[name][0] if now[name] else max(free[name][0], later[name][0][0])
            heapq.heappush(events, (max(at, cycle), name))
    return start


def deal(
    tiles: list[Tile], chains: list[list[Step]], data: list[list[int]], start: list[int], planes: int, slots: int
) -> Order:
    """Chains in topological order, the readiest first, each to the plane that is done with it first."""
    owner: dict[int, int] = {}
    for number, chain in enumerate(chains):
        for step in chain:
            owner[step.load] = number
            for use in step.uses:
                owner[use] = number
    key = [max(start[u] for u in chain[0].uses) for chain in chains]
    result = Order([[] for _ in range(planes)], [[] for _ in range(planes)], {}, {})
    dealer = _Dealer(tiles, planes, slots, result)
    for number in _topological(_chain_needs(tiles, data, owner, len(chains)), key):
        dealer.give(chains[number], key[number])
    return result


def _chain_needs(tiles: list[Tile], data: list[list[int]], owner: dict[int, int], count: int) -> list[set[int]]:
    """For every chain the chains that its tiles wait for, directly or through other units."""
    through: list[frozenset[int]] = []
    needs: list[set[int]] = [set() for _ in range(count)]
    empty: frozenset[int] = frozenset()
    for number in range(len(tiles)):
        found: set[int] = set()
        for before in data[number]:
            if before in owner:
                found.add(owner[before])
            else:
                found |= through[before]
        mine = owner.get(number)
        if mine is None:
            through.append(frozenset(found) if found else empty)
        else:
            found.discard(mine)
            needs[mine] |= found
            through.append(empty)
    return needs


def _topological(needs: list[set[int]], key: list[int]) -> list[int]:
    waiting = [len(n) for n in needs]
    users: list[list[int]] = [[] for _ in needs]
    for number, before in enumerate(needs):
        for b in sorted(before):
            users[b].append(number)
    heap = [(key[n], n) for n in range(len(needs)) if not waiting[n]]
    heapq.heapify(heap)
    order = []
    while heap:
        number = heapq.heappop(heap)[1]
        order.append(number)
        for user in users[number]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(heap, (key[user], user))
    assert len(order) == len(needs), "chains wait for each other"
    return order


class _Dealer:
    """Planes as they fill up: when each is free, and the weight tiles that it holds."""

    def __init__(self, tiles: list[Tile], planes: int, slots: int, result: Order):
        self.tiles, self.slots, self.result = tiles, slots, result
        self.free = [0] * planes
        self.port = [0] * planes
        self.count = [0] * planes
        self.held: list[dict[tuple[int, ...], tuple[int, int]]] = [{} for _ in range(planes)]  # weights -> (turn, LOADW)
        self.uses: dict[tuple[int, int], list[int]] = defaultdict(list)  # (plane, turn) -> MATMULs

    def give(self, chain: list[Step], key: int) -> None:
        """The whole chain to the plane that would finish it first."""
        plane = min(range(len(self.free)), key=lambda p: (self._finish(p, chain, key), p))
        self.free[plane], self.port[plane] = self._times(plane, chain, key)
        for step in chain:
            self._step(plane, step)

    def _finish(self, plane: int, chain: list[Step], key: int) -> tuple[int, int]:
        finish, port = self._times(plane, chain, key)
        return finish, port

    def _times(self, plane: int, chain: list[Step], key: int) -> tuple[int, int]:
        now, port = max(self.free[plane], key), self.port[plane]
        for step in chain:
            if step.weights not in self.held[plane]:
                load = self.tiles[step.load]
                port += load.beats
                now = max(now, port + load.latency)
            now += sum(self.tiles[u].beats for u in step.uses)
        return now, port

    def _step(self, plane: int, step: Step) -> None:
        held = self.held[plane]
        found = held.get(step.weights)
        if found is None:
            turn = self.count[plane]
            self.count[plane] += 1
            for weights in [w for w, (t, _) in held.items() if t <= turn - self.slots]:
                del held[weights]
            found = held[step.weights] = (turn, step.load)
            self.result.loads[plane].append(step.load)
            self.result.holds[step.load] = list(self.uses[plane, turn - self.slots])
            self._place(step.load, "weights", plane, turn)
        else:
            self.result.drop[step.load] = found[1]
        turn = found[0]
        for use in step.uses:
            self.uses[plane, turn].append(use)
            self.result.products[plane].append(use)
            self._place(use, "matrix", plane, turn)

    def _place(self, number: int, unit: str, plane: int, turn: int) -> None:
        tile = self.tiles[number]
        tile.unit = (unit, plane)
        tile.instruction = tile.instruction._replace(unit=plane, slot=turn % self.slots)
        tile.chain = turn
