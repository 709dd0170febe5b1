"""A plane's resources in a schedule: the array, the port that fills its weight slots, the slots, the accumulator rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from compiler.scheduling.reservation import ReservationTable


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


# Weights in a slot: the slot, the cycle from which they can be used, that until which it is taken, the number of the LOADW. A
# plain tuple is made faster than a named one, and these are made for every chain of every pass.
Held = tuple[int, int, int, int]


class Plane:
    """Reservation tables of one plane. ``left``: by weights how many blocks still want to find them in a slot."""

    def __init__(self, slots: int, banks: int, ii: int, left: Counter[Hashable] | None = None) -> None:
        self.left = Counter() if left is None else left
        self.array = ReservationTable(ii)
        self.port = ReservationTable(ii)
        self.slots = [ReservationTable(ii) for _ in range(slots)]
        self.banks = [ReservationTable(ii) for _ in range(banks)]
        self.held: dict[Hashable, Held] = {}
        self.filled: list[Hashable] = [None] * slots  # weights that came into each slot last
        # by kind of block: loaded no earlier than at the first cycle, none begins from the second up to the third
        self.none: dict[Hashable, tuple[int, int, int]] = {}
        self.taken: list[tuple[ReservationTable, int, int]] = []
        self.before: list[tuple[Hashable, Held | None]] = []

    def again(self, ii: int, left: Counter[Hashable]) -> Plane:
        """What is taken and held, at another II, behind which none of it lies."""
        other = Plane(0, 0, ii, left)
        other.array, other.port = self.array.again(ii), self.port.again(ii)
        other.slots = [slot.again(ii) for slot in self.slots]
        other.banks = [bank.again(ii) for bank in self.banks]
        other.held, other.filled = self.held.copy(), self.filled.copy()
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
        if block.weights in self.held:
            at = min(at, max(ready, self.held[block.weights][1]))
        elif block.kind in self.none:
            known = self.none[block.kind]
            if known[0] <= loadable and known[1] <= at < known[2]:
                at = known[2]
        if at >= NEVER:
            return NEVER
        found = self.array.find(at, block.beats)
        return NEVER if found is None else found

    def fit(self, block: Block, ready: int, loadable: int, before: int, least: int | None = None) -> Place | None:
        """The earliest place: operands are there at ``ready``, weights can be fetched from ``loadable`` on. None where none
        is found, or none that begins ``before`` a cycle. ``least``: what is said of that by the method of this name."""
        held = self.held.get(block.weights)
        if held is None:
            return self._fresh(block, ready, loadable, before, least)
        again = self._again(block, max(ready, held[1]), held)
        if again is not None and again.start < before:
            before = again.start
        return self._fresh(block, ready, loadable, before) or again

    def best_fit(
        self, block: Block, ready: int, loadable: int, until: int, best: tuple[int, int]
    ) -> tuple[tuple[int, int], Place] | None:
        """A place at an end of a free span of the array, or as early as it may be in one, that is better than the ``best`` so
        far: it leaves the span in fewer pieces or begins earlier. It begins no later than ``until``."""
        held, beats = self.held.get(block.weights), block.beats
        loaded = loadable + block.lead
        at = max(ready, loaded if held is None else min(held[1], loaded))
        found = None
        for low, high in self.array.gaps(at, until, beats):
            if best[0] == 1 and low > best[1] and high - low > beats:  # a later one is better only where it fills it
                continue
            first, last = max(low, at), high - beats
            for start in (first, last) if first < last <= until else (first,):
                score = (start != low) + (start != last), start
                place = self._at(block, start, held, loaded) if score < best else None
                if place is not None:
                    best, found = score, (score, place)
        return found

    def _at(self, block: Block, start: int, held: Held | None, loaded: int) -> Place | None:
        """The place of products at ``start``, with the weights that are ``held``, or ones that can be there when ``loaded``."""
        place = None if held is None or start < held[1] else self._again(block, start, held)
        return self._in_time(block, start) if place is None and start >= loaded else place

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
        slot, _, until, _ = held
        end = start + block.beats
        if end > until and not self.slots[slot].free(until, end - until):
            return None
        return Place(start, None, slot)

    def _fresh(self, block: Block, ready: int, loadable: int, before: int, least: int | None = None) -> Place | None:
        """The earliest place with weights of its own. Where blocks of the same kind found none is not looked at again."""
        beats, find = block.beats, self.array.find
        low = at = max(ready, loadable + block.lead)
        known = self.none.get(block.kind)
        if known is not None and known[0] <= loadable and known[1] <= at <= known[2]:
            low, at = known[1], known[2]
        before = min(before, low + 2 * self.array.ii)  # in two IIs it has met all that is taken
        if at >= before:
            return None
        found = None
        for _ in range(TRIES):
            start = find(at, beats) if least is None else least
            if start is None:
                return None
            at, least = start, None
            if start >= before:
                break
            at, found = self._load(block, start, loadable)
            if found is not None or at == NEVER:
                break
        self.none[block.kind] = (loadable, low, at)
        return found

    def _load(self, block: Block, start: int, loadable: int) -> tuple[int, Place | None]:
        """Where weights for products at ``start`` go, as late as they may; or the first start at which there may be a place."""
        load, beats = start - block.lead, block.load
        there, length = start - beats, beats + block.beats  # what a slot has to be free for at least
        if not self.port.free(load, beats):
            return self._load_ahead(block, start, loadable)
        found = None
        for number, slot in enumerate(self.slots):
            if slot.free(there, length):
                found = Place(start, load, number)
                if not self.left[self.filled[number]]:
                    break
        return (start, found) if found else (self._emptied(there, length, beats), None)

    def _load_ahead(self, block: Block, start: int, loadable: int) -> tuple[int, Place | None]:
        """Likewise where the port is busy just before the products: the last load before that for which a slot is free."""
        port, load, beats = self.port, start - block.lead, block.load
        there, length = start - beats, beats + block.beats
        since = [slot.since(there, length) for slot in self.slots]
        some = [cycle for cycle in since if cycle is not None]
        if not some:
            at, loadable = self._emptied(there, length, beats), max(loadable, load)
        else:
            at, loadable = start + 1, max(loadable, min(some) - block.latency)
        free = port.find(loadable, beats)
        if free is None:
            return NEVER, None
        if free > load or not some:
            return max(at, free + block.lead), None
        last = port.last(load, beats, free)
        assert last is not None
        filled = last + block.latency
        number = next(n for n, cycle in enumerate(since) if cycle is not None and cycle <= filled)
        return start, Place(start, last, number)

    def _emptied(self, at: int, length: int, load: int) -> int:
        """The first start of products at which a slot is free long enough for them and their ``load`` from ``at`` on."""
        found = [met for slot in self.slots if (met := slot.find(at, length)) is not None]
        return min(found) + load if found else NEVER

    def take(self, block: Block, place: Place, number: int) -> int:
        """Reserve a place; ``number``: of the LOADW. Answers the number of the LOADW that really serves."""
        start, load, where = place
        beats, taken = block.beats, self.taken
        self.array.take(start, beats)
        end = start + beats  # of the slot, too: the next load may be on its way before its products have read it
        held = self.held.get(block.weights)
        self.before.append((block.weights, held))
        if load is None:
            assert held is not None
            taken.append((self.array, start, beats))
            where, ready, until, serving = held
            if end > until:
                slot = self.slots[where]
                slot.take(until, end - until)
                taken.append((slot, until, end - until))
                self.held[block.weights] = where, ready, end, serving
            return serving
        self.port.take(load, block.load)
        filled, slot = load + block.latency, self.slots[where]
        slot.take(filled, end - filled)
        self.filled[where] = block.weights
        taken += (self.array, start, beats), (self.port, load, block.load), (slot, filled, end - filled)
        self.held[block.weights] = where, filled + block.load, end, number
        return number

    def bank(self, start: int, end: int, count: int) -> int | None:
        """The first of ``count`` banks side by side that are free from ``start`` to ``end``, taken; None when there are none."""
        free, beats = 0, end - start
        for number, bank in enumerate(self.banks):
            free = free + 1 if bank.free(start, beats) else 0
            if free == count:
                for taken in self.banks[number + 1 - count : number + 1]:
                    taken.take(start, beats)
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
