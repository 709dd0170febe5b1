"""A plane's resources in a schedule: the array, the port that fills its weight slots, the slots, the accumulator rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from compiler.schedule.track import Track


class Block:
    """A step of a chain: a weight tile and the products that follow each other on it.

    ``beats``: of all products; ``load``, ``latency``: of the LOADW. ``lead``: cycles from its issue until the weights can
    be used. Blocks of one ``kind`` differ in their weights alone; it is made of the cycles where none is given.
    """

    __slots__ = ("beats", "kind", "latency", "lead", "load", "weights")

    def __init__(self, weights: Hashable, beats: int, load: int, latency: int, kind: Hashable = None) -> None:
        self.weights, self.beats, self.load, self.latency = weights, beats, load, latency
        self.lead = load + latency
        self.kind = (beats, load, latency) if kind is None else kind


class Place(NamedTuple):
    """Where a block goes: the cycle of its first product, that of its load (None: the weights are there), its slot."""

    start: int
    load: int | None
    slot: int


class Held(NamedTuple):
    """Weights in a slot: usable from ``ready`` on, the slot is taken until ``end``; ``load``: number of the LOADW."""

    slot: int
    ready: int
    end: int
    load: int


class Plane:
    """Reservation tables of one plane."""

    def __init__(self, slots: int, banks: int, period: int) -> None:
        self.array = Track(period)
        self.port = Track(period)
        self.slots = [Track(period) for _ in range(slots)]
        self.banks = [Track(period) for _ in range(banks)]
        self.held: dict[Hashable, Held] = {}
        # by kind of block: loaded no earlier than at the first cycle, none begins from the second up to the third
        self.none: dict[Hashable, tuple[int, int, int]] = {}
        self.taken: list[tuple[Track, int, int]] = []
        self.before: list[tuple[Hashable, Held | None]] = []

    def again(self, period: int) -> Plane:
        """What is taken and held, at another period, behind which none of it lies."""
        other = Plane(0, 0, period)
        other.array, other.port = self.array.again(period), self.port.again(period)
        other.slots = [slot.again(period) for slot in self.slots]
        other.banks = [bank.again(period) for bank in self.banks]
        other.held = self.held.copy()
        return other

    def begin(self) -> None:
        """What is taken from now on can be given back by ``undo``."""
        self.taken.clear()
        self.before.clear()

    def undo(self) -> None:
        """Give back what was taken since ``begin``."""
        self.none.clear()
        for track, at, beats in self.taken:
            track.give(at, beats)
        for weights, held in reversed(self.before):
            if held is None:
                del self.held[weights]
            else:
                self.held[weights] = held
        self.begin()

    def least(self, block: Block, ready: int, loadable: int) -> int:
        """A cycle before which ``fit`` finds no place; ``NEVER`` where it finds none. It looks at the array alone."""
        at = loadable + block.lead
        if ready > at:
            at = ready
        held = self.held.get(block.weights)
        if held is not None:
            at = min(at, max(ready, held.ready))
        else:
            known = self.none.get(block.kind)
            if known is not None and known[0] <= loadable and known[1] <= at < known[2]:
                at = known[2]
        if at >= NEVER:
            return NEVER
        found = self.array.find(at, block.beats)
        return NEVER if found is None else found

    def fit(self, block: Block, ready: int, loadable: int, before: int) -> Place | None:
        """The earliest place: operands are there at ``ready``, weights can be fetched from ``loadable`` on. None where none
        is found, or none that begins ``before`` a cycle."""
        held = self.held.get(block.weights)
        again = None if held is None else self._again(block, max(ready, held.ready), held)
        if again is not None and again.start < before:
            before = again.start
        return self._fresh(block, ready, loadable, before) or again

    def snug(
        self, block: Block, ready: int, loadable: int, until: int, best: tuple[int, int]
    ) -> tuple[tuple[int, int], Place] | None:
        """A place at an end of a free span of the array, or as early as it may be in one, that is better than the ``best`` so
        far: it leaves the span in fewer pieces or begins earlier. It begins no later than ``until``."""
        held, beats = self.held.get(block.weights), block.beats
        loaded = loadable + block.lead
        at = max(ready, loaded if held is None else min(held.ready, loaded))
        found = None
        for low, high in self.array.gaps(at, until, beats):
            if best[0] == 1 and low > best[1] and high - low > beats:  # a later one is better only where it fills it
                continue
            first, last = max(low, at), high - beats
            for start in (first, last) if first < last <= until else (first,):
                score = (start != low) + (start != last), start
                if score >= best:
                    continue
                place = None if held is None or start < held.ready else self._again(block, start, held)
                if place is None and start >= loaded:
                    place = self._in_time(block, start)
                if place is not None:
                    best, found = score, (score, place)
        return found

    def _in_time(self, block: Block, start: int) -> Place | None:
        """Weights for products at ``start`` that are loaded just before them."""
        load = start - block.lead
        if self.port.free(load, block.load):
            length = block.load + block.beats
            for number, slot in enumerate(self.slots):
                if slot.free(start - block.load, length):
                    return Place(start, load, number)
        return None

    def _again(self, block: Block, at: int, held: Held) -> Place | None:
        start = self.array.find(at, block.beats)
        if start is None:
            return None
        end = start + block.beats
        if end > held.end and not self.slots[held.slot].free(held.end, end - held.end):
            return None
        return Place(start, None, held.slot)

    def _fresh(self, block: Block, ready: int, loadable: int, before: int) -> Place | None:
        """The earliest place with weights of its own. Where blocks of the same kind found none is not looked at again."""
        lead, beats, find = block.lead, block.beats, self.array.find
        low = at = ready if ready > loadable + lead else loadable + lead
        known = self.none.get(block.kind)
        if known is not None and known[0] <= loadable and known[1] <= at <= known[2]:
            low, at = known[1], known[2]
        before = min(before, low + 2 * self.array.period)  # in two periods it has met all that is taken
        if at >= before:
            return None
        found = None
        for _ in range(TRIES):
            start = find(at, beats)
            if start is None:
                return None
            at = start
            if start >= before:
                break
            at, found = self._load(block, start, lead, loadable)
            if found is not None or at == NEVER:
                break
        self.none[block.kind] = (loadable, low, at)
        return found

    def _load(self, block: Block, start: int, lead: int, loadable: int) -> tuple[int, Place | None]:
        """Where weights for products at ``start`` go, as late as they may; or the first start at which there may be a place."""
        load = self.port.last(start - lead, block.load, loadable)
        at = start
        if load is not None:
            filled = load + block.latency
            length = start + block.beats - filled
            for number, slot in enumerate(self.slots):
                if slot.free(filled, length):
                    return start, Place(start, load, number)
            shortest, at = block.load + block.beats, NEVER
            for slot in self.slots:
                met = slot.find(start - block.load, shortest)
                if met is not None and met < at:
                    at = met
            if at == NEVER:
                return NEVER, None
            at += block.load
        if load != start - lead:  # no later one before the port is free again
            later = self.port.find(max(loadable, start - lead), block.load)
            if later is None:
                return NEVER, None
            at = max(at, later + lead)
        return max(at, start + 1), None

    def take(self, block: Block, place: Place, number: int) -> int:
        """Reserve a place; ``number``: of the LOADW. Answers the number of the LOADW that really serves."""
        start, load, where = place
        beats, taken = block.beats, self.taken
        self.array.take(start, beats)
        taken.append((self.array, start, beats))
        end = start + beats  # of the slot, too: the next load may be on its way before its products have read it
        held = self.held.get(block.weights)
        self.before.append((block.weights, held))
        if load is None:
            assert held is not None
            if end > held.end:
                slot = self.slots[held.slot]
                slot.take(held.end, end - held.end)
                taken.append((slot, held.end, end - held.end))
                self.held[block.weights] = Held(held.slot, held.ready, end, held.load)
            return held.load
        self.port.take(load, block.load)
        filled, slot = load + block.latency, self.slots[where]
        slot.take(filled, end - filled)
        taken += ((self.port, load, block.load), (slot, filled, end - filled))
        self.held[block.weights] = Held(where, filled + block.load, end, number)
        return number

    def bank(self, start: int, end: int, count: int) -> int | None:
        """The first of ``count`` banks side by side that are free from ``start`` to ``end``, taken; None when there are none."""
        free = 0
        for number, bank in enumerate(self.banks):
            free = free + 1 if bank.free(start, end - start) else 0
            if free == count:
                for taken in self.banks[number + 1 - count : number + 1]:
                    taken.take(start, end - start)
                return number + 1 - count
        return None


BANKS = 16  # that accumulator rows are given out in
TRIES = 4000  # places looked at for one block
NEVER = 1 << 62


def banks(rows: int, chains: Sequence[int]) -> tuple[int, int]:
    """How many banks a plane's accumulator ``rows`` make, and the rows of each; ``chains``: rows that chains take."""
    most = max(chains, default=1)
    each = min(most, max(1, rows // BANKS))
    if -(-most // each) > rows // each:  # the longest would not fit into whole banks
        each = most
    needed = sum(-(-n // each) for n in chains)
    return min(rows // each, max(1, needed)), each  # more than all chains together take would stay empty
