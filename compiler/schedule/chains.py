"""Which plane does what, and in which order.

A chain is the passes over all K tiles that complete some rows of some columns; a step of it is one weight tile and the
MATMULs that use it. A rehearsal of the whole schedule (without weight slots and memory lines) gives every chain, when all
that it reads is there, to the plane that can start it first. Chains wait only for chains that ended before they began, so
planes that work in this order never wait for each other in a circle. A weight tile that a plane still holds is not loaded
again.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.isa.machine import UNIT_CLASSES

if TYPE_CHECKING:
    from compiler.isa.machine import Machine
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


class Rehearsal:
    """The event loop over jobs: a chain is one job, every other tile is one of its own."""

    def __init__(
        self,
        tiles: list[Tile],
        chains: list[list[Step]],
        data: list[list[int]],
        rank: list[tuple[int, ...]],
        machine: Machine,
    ):
        self.tiles, self.chains, self.machine = tiles, chains, machine
        self.job = list(range(len(tiles)))  # tile -> job; chains come after all tiles
        for number, chain in enumerate(chains):
            for step in chain:
                for n in (step.load, *step.uses):
                    self.job[n] = len(tiles) + number
        jobs = len(tiles) + len(chains)
        self.rank: list[tuple[int, ...]] = [*rank, *(min(rank[u] for u in chain[0].uses) for chain in chains)]
        self.waiting = [0] * jobs
        self.earliest = [0] * jobs
        self.users: list[list[tuple[int, int]]] = [[] for _ in tiles]  # (job, cycles after the end)
        self._link(data)
        names = [name for name in UNIT_CLASSES if name != "weights"]
        self.free = {name: [0] * machine.unit(name).instances for name in names}
        self.later: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        self.now: dict[str, list[tuple[tuple[int, ...], int]]] = {name: [] for name in names}
        self.events: list[tuple[int, int]] = []
        self.names = names
        self.dealer = Dealer(tiles, machine.matrix.instances, machine.matrix.slots)

    def _link(self, data: list[list[int]]) -> None:
        for number, tile in enumerate(self.tiles):
            job = self.job[number]
            extra = tile.beats + tile.latency if tile.unit[0] == "weights" else 0
            for before in data[number]:
                if self.job[before] != job:
                    self.waiting[job] += 1
                    self.users[before].append((job, extra))

    def run(self) -> Order:
        """Rehearse; answers what every plane does."""
        jobs = sorted(set(self.job))
        for job in jobs:
            if not self.waiting[job]:
                self._offer(job)
        while self.events:
            cycle, number = heapq.heappop(self.events)
            self._step(cycle, self.names[number])
        return self.dealer.result

    def _unit(self, job: int) -> str:
        return "matrix" if job >= len(self.tiles) else self.tiles[job].unit[0]

    def _offer(self, job: int) -> None:
        name = self._unit(job)
        heapq.heappush(self.later[name], (self.earliest[job], job))
        self._wake(name, self.earliest[job])

    def _wake(self, name: str, cycle: int) -> None:
        heapq.heappush(self.events, (max(cycle, min(self.free[name])), self.names.index(name)))

    def _step(self, cycle: int, name: str) -> None:
        later, now, free = self.later[name], self.now[name], self.free[name]
        while later and later[0][0] <= cycle:
            job = heapq.heappop(later)[1]
            heapq.heappush(now, (self.rank[job], job))
        while now and min(free) <= cycle:
            job = heapq.heappop(now)[1]
            if name == "matrix":
                self._chain(job - len(self.tiles), cycle, free)
                continue
            unit = free.index(min(free))
            tile = self.tiles[job]
            free[unit] = cycle + tile.beats
            self._done(job, cycle + tile.beats + tile.latency)
        if now:
            self._wake(name, min(free))
        elif later:
            self._wake(name, later[0][0])

    def _chain(self, number: int, cycle: int, free: list[int]) -> None:
        """All of a chain on the plane, among those that are free, that has its weights first."""
        chain = self.chains[number]
        plane = min(
            (p for p, f in enumerate(free) if f <= cycle), key=lambda p: (self.dealer.arrival(p, chain[0], cycle), p)
        )
        at = cycle
        for step in chain:
            at = max(at, self.dealer.give(plane, step, at))
            for use in step.uses:
                at += self.tiles[use].beats
                self._done(use, at + self.tiles[use].latency)
        free[plane] = at

    def _done(self, number: int, end: int) -> None:
        for job, extra in self.users[number]:
            self.waiting[job] -= 1
            self.earliest[job] = max(self.earliest[job], end + extra)
            if not self.waiting[job]:
                self._offer(job)


class Dealer:
    """Planes as they fill up: the weight tiles that each holds, and since when its load port is free."""

    def __init__(self, tiles: list[Tile], planes: int, slots: int):
        self.tiles, self.slots = tiles, slots
        self.result = Order([[] for _ in range(planes)], [[] for _ in range(planes)], {}, {})
        self.port = [0] * planes
        self.begun = [[0] * slots for _ in range(planes)]  # when the last steps began: a slot is free two steps later
        self.count = [0] * planes
        self.held: list[dict[tuple[int, ...], tuple[int, int]]] = [
            {} for _ in range(planes)
        ]  # weights -> (turn, LOADW)
        self.uses: dict[tuple[int, int], list[int]] = defaultdict(list)  # (plane, turn) -> MATMULs

    def arrival(self, plane: int, step: Step, cycle: int) -> int:
        """When the step's weights can be on the plane."""
        if step.weights in self.held[plane]:
            return cycle
        load = self.tiles[step.load]
        return max(cycle, max(self.port[plane], self.begun[plane][-1]) + load.beats + load.latency)

    def give(self, plane: int, step: Step, cycle: int) -> int:
        """Put a step on a plane at its earliest from ``cycle`` on; answers when it begins."""
        begin = self.arrival(plane, step, cycle)
        held = self.held[plane]
        found = held.get(step.weights)
        if found is None:
            load = self.tiles[step.load]
            self.port[plane] = max(self.port[plane], self.begun[plane][-1]) + load.beats
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
        self.begun[plane] = [*self.begun[plane][1:], begin]
        for use in step.uses:
            self.uses[plane, found[0]].append(use)
            self.result.products[plane].append(use)
            self._place(use, "matrix", plane, found[0])
        return begin

    def _place(self, number: int, unit: str, plane: int, turn: int) -> None:
        tile = self.tiles[number]
        tile.unit = (unit, plane)
        tile.instruction = tile.instruction._replace(unit=plane, slot=turn % self.slots)
        tile.chain = turn
