"""Reserved slots: where in an II each chain of products runs, found without regard to when its operands are there.

Where the interval is all that counts, a chain may wait up to an II for its slot, so slots only have to fill the planes. A
plane loads the weights of the next chain while it works on one, because a third set of weights has no room: a chain with
b cycles of products and a cycles of loads in front of the next one keep the array for max(b, a) cycles. The order round the
II with the smallest sum is Gilmore and Gomory's ("Sequencing a one state-variable machine", 1964): the shortest products go
before the shortest loads, and circles that are left are joined where that costs least.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from compiler.isa import Machine
from compiler.scheduling.modulo_scheduler import InfeasibleII, ModuloScheduler, Placement
from compiler.scheduling.planes import NEVER, Block, Place, Plane
from compiler.scheduling.problem import Problem

TURNS = 8  # that a chain lets pass because of another one's writes


class Slot(NamedTuple):
    """A plane, the first of a chain's accumulator banks, and the place of every step: cycles of which those in front of an II
    are of the one before."""

    plane: int
    bank: int
    places: list[Place]


def reserved_slots(
    chains: Sequence[Sequence[Block]], banks: Sequence[int], planes: Sequence[Plane]
) -> list[Slot] | None:
    """A slot for every chain, taken on its plane; ``banks``: how many each needs. None where the II is too short."""
    found: list[Slot | None] = [None] * len(chains)
    for number, (plane, some) in enumerate(zip(planes, _dealt(chains, len(planes)), strict=True)):
        at = plane.array.ii
        for chain in _circle([chains[n] for n in some]):
            n = some[chain]
            slot = _reserved(plane, number, chains[n], banks[n], at)
            if slot is None:
                return None
            found[n], at = slot, slot.places[-1].start + chains[n][-1].beats
    return [slot for slot in found if slot is not None]


def _reserved(plane: Plane, number: int, blocks: Sequence[Block], banks: int, at: int) -> Slot | None:
    """The next slot from a cycle on. Its weights are loaded for it alone."""
    places = []
    for block in blocks:
        plane.held.clear()
        place = plane.fit(block, at, 0, NEVER)
        if place is None:
            return None
        plane.take(block, place, 0)
        places.append(place)
        at = place.start + block.beats
    bank = plane.bank(places[0].start, at, banks)
    return None if bank is None else Slot(number, bank, places)


def _dealt(chains: Sequence[Sequence[Block]], planes: int) -> list[list[int]]:
    """Chains by plane: the longest first, each to the plane that has least to do, so that like chains are spread."""
    work = [(sum(block.beats for block in chain), chain[0].load) for chain in chains]
    dealt: list[list[int]] = [[] for _ in range(planes)]
    loaded = [0] * planes
    for n in sorted(range(len(chains)), key=lambda n: (-work[n][0], work[n][1], n)):
        where = loaded.index(min(loaded))
        dealt[where].append(n)
        loaded[where] += work[n][0]
    return dealt


def _circle(chains: Sequence[Sequence[Block]]) -> list[int]:
    """The order round the II in which the array waits least for loads."""
    count = len(chains)
    by_work = sorted(range(count), key=lambda n: (chains[n][-1].beats, n))
    by_load = sorted(range(count), key=lambda n: (chains[n][0].load, n))
    work, load = [chains[n][-1].beats for n in by_work], [chains[n][0].load for n in by_load]
    behind = dict(zip(by_work, by_load, strict=True))
    waits = [a <= b for a, b in zip(work, load, strict=True)]
    for k in sorted(_joins(by_work, behind, work, load), key=lambda k: (not waits[k], -k if waits[k] else k)):
        one, other = by_work[k : k + 2]
        behind[one], behind[other] = behind[other], behind[one]
    order = [0] if count else []
    while len(order) < count:
        order.append(behind[order[-1]])
    return order


def _joins(by_work: list[int], behind: dict[int, int], work: list[int], load: list[int]) -> list[int]:
    """Neighbours by their work (the place of the first) that exchange what is behind them, so that circles become one, where
    that costs least."""
    count = len(by_work)
    circle = list(range(count))  # by chain another of its circle, towards the one that stands for all
    for n, after in behind.items():
        circle[_first(circle, n)] = _first(circle, after)
    dearer = [max(0, min(work[k + 1], load[k + 1]) - max(work[k], load[k])) for k in range(count - 1)]
    joins = []
    for k in sorted(range(count - 1), key=lambda k: (dearer[k], k)):
        one, other = (_first(circle, n) for n in by_work[k : k + 2])
        if one != other:
            circle[one] = other
            joins.append(k)
    return joins


def _first(circle: list[int], n: int) -> int:
    """The element that stands for the circle of another."""
    while circle[n] != n:
        circle[n] = circle[circle[n]]
        n = circle[n]
    return n


class Spent(InfeasibleII):
    """What waits for its slots lives too long for the arenas, and would at other IIs."""


class SlotScheduler(ModuloScheduler):
    """An insertion in which chains go to slots, taken before the first job. Slots of chains that take as long are alike."""

    def __init__(
        self, problem: Problem, machine: Machine, jobs: Sequence[int], ii: int, release: Sequence[int], copies: int
    ) -> None:
        super().__init__(problem, machine, jobs, ii, release, copies, slack=ii)
        wanted = [-(-rows // self.bank) for rows in problem.rows]
        self.kinds = [(count, *(b.kind for b in chain)) for count, chain in zip(wanted, problem.blocks, strict=True)]
        found = reserved_slots(problem.blocks, wanted, self.planes)
        self.none = found is None
        self.free: dict[Hashable, list[Slot]] = {}
        for kind, slot in zip(self.kinds, found or (), strict=False):
            self.free.setdefault(kind, []).append(slot)

    def run(self) -> Placement:
        """Place everything; ``InfeasibleII`` where there are no slots, ``Spent`` where they do not help."""
        if self.none:
            raise InfeasibleII(self.ii + 1)
        try:
            return super().run()
        except InfeasibleII as short:
            raise Spent(short.needed) from None

    def _chain(self, number: int) -> None:
        """The free slot of its kind whose turn comes first once operands are there, for all steps of a chain."""
        block, free = self.p.blocks[number][0], self.free[self.kinds[number]]
        least = self._ready(number, 0, self.earliest[self.p.chains[number][0].load] + block.lead)
        best, found = NEVER, free[0]
        for after, n in sorted(((s.places[0].start - least) % self.ii, n) for n, s in enumerate(free)):
            if least + after >= best:
                break
            at = self._turn(number, free[n].places)
            if at < best:
                best, found = at, free[n]
        if best == NEVER:
            raise InfeasibleII(self.ii + 1)
        free.remove(found)
        plane, bank, places = found
        moved = [_moved(place, best - places[0].start) for place in places]
        self._give(number, plane, [(p, s.load) for p, s in zip(moved, self.p.chains[number], strict=True)], bank)

    def _turn(self, number: int, places: list[Place]) -> int:
        """When the first step begins if a chain takes a slot; ``NEVER`` where writes of others are in the way."""
        first, at = places[0].start, 0
        for index, (step, place) in enumerate(zip(self.p.chains[number], places, strict=True)):
            at = max(at, self.earliest[step.load] - _load(place) + first)
            at = self._ready(number, index, at + place.start - first) - place.start + first
        return self._apart(number, at + (first - at) % self.ii, [place.start - first for place in places])

    def _apart(self, number: int, at: int, ahead: list[int]) -> int:
        """The first turn from a cycle on at which no write of the chain is in the way of another; ``NEVER`` if it is far."""
        writes = [
            (use, offset + behind)
            for offset, mated in zip(ahead, self.mated[number], strict=True)
            for use, behind in mated
        ]
        for _ in range(TURNS):
            if all(self._clear_of_writes(use, at + offset) == at + offset for use, offset in writes):
                return at
            at += self.ii
        return NEVER


def _moved(place: Place, cycles: int) -> Place:
    return Place(place.start + cycles, _load(place) + cycles, place.slot)


def _load(place: Place) -> int:
    """When the weights of a slot are loaded, which they always are."""
    assert place.load is not None
    return place.load
