"""Modulo scheduling: every job, one after the other, goes to the earliest place that is legal for it in every inference.

A job is a tile, or a chain of tiles that a plane works through. What is taken is kept in modulo reservation tables, so the
schedule may be repeated at the II: no unit, weight slot, accumulator row or buffer of two inferences meets. Without an II
(``ONCE``) it is list scheduling. Buffers may live for ``copies`` IIs, as many as there are arenas that inferences take in
turn; states for one. The rules are those that the simulator enforces. Source: B. R. Rau, "Iterative modulo scheduling", 1996.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from compiler.isa import Machine
from compiler.scheduling.planes import Place, Plane, banks
from compiler.scheduling.problem import Problem
from compiler.scheduling.reservation import ONCE, ReservationTable

NEVER = 1 << 60
MARKS = 16  # times that a pass keeps what it has in common with others


class InfeasibleII(Exception):
    """No schedule of this order repeats at the II; ``needed``: an II that might do."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"needs an II of {needed}")
        self.needed = needed


@dataclass
class Placement:
    """``start`` and ``instance`` per tile (-1: a LOADW whose weights were there already); slot, first accumulator row and
    LOADW that serves, of what planes do; per buffer the first and the last cycle of its life, where the schedule repeats."""

    start: list[int]
    instance: list[int]
    slot: dict[int, int]
    row: dict[int, int]
    serves: dict[int, int]
    first: list[int]
    last: list[int]
    latency: int

    def copy(self) -> Placement:
        return replace(
            self,
            start=self.start.copy(),
            instance=self.instance.copy(),
            slot=self.slot.copy(),
            row=self.row.copy(),
            serves=self.serves.copy(),
            first=self.first.copy(),
            last=self.last.copy(),
        )


@dataclass
class Common:
    """What passes over the same jobs with the same releases and no patience have in common at all IIs of ``safe`` cycles or
    more: as long as everything ends by then, nothing is in the way of another inference, and the first ``done`` jobs
    are where they are at any of them. Every pass begins there, and leaves the next one more. ``spent``: no other II is
    worth a pass."""

    safe: int = 0
    spent: bool = False
    done: int = 0
    out: Placement | None = None
    earliest: list[int] = field(default_factory=list)
    tracks: dict[str, list[ReservationTable]] = field(default_factory=dict)
    planes: list[Plane] = field(default_factory=list)
    left: Counter[Hashable] = field(default_factory=Counter)
    horizon: list[int] = field(default_factory=list)


class ModuloScheduler:
    """One pass over all jobs in their order, for one II; no tile before its ``release``, none that ends behind the
    ``limit``. ``slack``: cycles that a job may wait for a place that leaves no gap. ``common``: of
    passes at other IIs."""

    def __init__(
        self,
        problem: Problem,
        machine: Machine,
        jobs: Sequence[int],
        ii: int = ONCE,
        release: Sequence[int] = (),
        copies: int = 1,
        limit: int = NEVER,
        slack: int = 0,
        common: Common | None = None,
    ) -> None:
        self.p, self.jobs, self.limit, self.slack, self.common = problem, jobs, limit, slack, common
        self.ii, self.repeats = ii, ii != ONCE
        self.span = [ii * copies if moves else ii for moves in problem.moves]
        self.tracks = {
            name: [ReservationTable(self.ii) for _ in range(machine.unit(name).instances)] for name in problem.classes
        }
        count, self.bank = banks(machine.matrix.accumulator_rows, problem.rows)
        self.left = problem.kept.copy()
        self.planes = [Plane(machine.matrix.slots, count, self.ii, self.left) for _ in range(machine.matrix.instances)]
        n = len(problem.beats)
        self.out = Placement([-1] * n, [0] * n, {}, {}, {}, [NEVER] * problem.buffers, [0] * problem.buffers, 0)
        self.earliest = [max(0, cycle) for cycle in release] or [0] * n
        self.after, self.mated = problem.after, problem.mated
        self.horizon = [0] * len(self.planes)
        self.strained = False  # whether a chain found no place for all of it at the first try

    def run(self) -> Placement:
        """Place everything; ``InfeasibleII`` when the II does not allow it."""
        done = self._begin(self.common) if self.common else 0
        for job in self.jobs[done:]:
            self._place(job)
        self._prefetch()
        start, end = self.out.start, self.p.end
        self.out.latency = max((s + e for s, e in zip(start, end, strict=True) if s >= 0), default=0)
        return self.out

    def _place(self, job: int) -> None:
        tiles = len(self.p.beats)
        if job >= tiles:
            self._chain(job - tiles)
        else:
            self._single(job)

    def _begin(self, common: Common) -> int:
        """Place what ends within the safe cycles, and what comes next; answers how many jobs that are."""
        if common.out is not None:
            self._resume(common, common.out)
        step = max(1, len(self.jobs) // MARKS)
        for at in range(common.done, len(self.jobs)):
            if at % step == 0 and at > common.done:
                self._keep(common, at)
            self._place(self.jobs[at])
            if self.strained or self._end(self.jobs[at]) > common.safe:
                return at + 1
        return len(self.jobs)

    def _resume(self, common: Common, out: Placement) -> None:
        last = max((s + t for s, t in zip(out.start, self.p.tail, strict=True) if s >= 0), default=0)
        if last > self.limit:
            raise InfeasibleII(last)
        self.out, self.earliest, self.horizon = out.copy(), common.earliest.copy(), common.horizon.copy()
        self.tracks = {name: [t.again(self.ii) for t in tracks] for name, tracks in common.tracks.items()}
        self.left = common.left.copy()
        self.planes = [plane.again(self.ii, self.left) for plane in common.planes]

    def _keep(self, common: Common, done: int) -> None:
        common.done, common.out = done, self.out.copy()
        common.earliest, common.horizon = self.earliest.copy(), self.horizon.copy()
        common.tracks = {name: [t.again(self.ii) for t in tracks] for name, tracks in self.tracks.items()}
        common.left = self.left.copy()
        common.planes = [plane.again(self.ii, common.left) for plane in self.planes]

    def _end(self, job: int) -> int:
        """When the last of a placed job ends."""
        p, start = self.p, self.out.start
        if job < len(p.beats):
            return start[job] + p.end[job]
        return max(start[use] + p.end[use] for step in p.chains[job - len(p.beats)] for use in step.uses)

    def _prefetch(self) -> None:
        """The first constant weights of every slot are loaded as soon as the slot is free: nobody gains by waiting."""
        p, out = self.p, self.out
        seen: set[tuple[int, int]] = set()
        loads = (n for n in out.slot if p.unit[n] == "weights")
        for n in sorted(loads, key=lambda n: (out.start[n], n)):
            plane, slot = self.planes[out.instance[n]], out.slot[n]
            if (out.instance[n], slot) in seen or p.data[n]:
                continue
            seen.add((out.instance[n], slot))
            spare = plane.slots[slot].gap(out.start[n] + p.latency[n])
            at = plane.port.find(max(0, out.start[n] - spare), p.beats[n])
            if at is not None and at < out.start[n]:
                out.start[n] = at
                plane.port.take(at, p.beats[n])

    # -- one tile -------------------------------------------------------------------------------------------------------

    def _single(self, n: int) -> None:
        p = self.p
        beats = p.beats[n]
        at = self.earliest[n]
        if self.repeats and p.begins[n]:
            at = max(at, self._life(n))
        best, where = NEVER, 0
        for number, track in enumerate(self.tracks[p.unit[n]]):
            found = self._clear(track, n, at, beats)
            if found < best:
                best, where = found, number
        if best == NEVER:
            raise InfeasibleII(self.ii + beats)
        self.tracks[p.unit[n]][where].take(best, beats)
        self._settle(n, best, where)

    def _clear(self, track: ReservationTable, n: int, at: int, beats: int) -> int:
        while True:
            found = track.best_fit(at, beats, self.slack) if self.slack else track.find(at, beats)
            if found is None:
                return NEVER
            at = self._clear_of_writes(n, found) if n in self.p.output_dependences else found
            if at == found:
                return found

    def _clear_of_writes(self, n: int, at: int) -> int:
        """The first cycle from ``at`` on at which no write to a line that the tile also writes is in its way."""
        p, start = self.p, self.out.start
        moved = True
        while moved:
            moved = False
            for mate, behind, ahead in p.output_dependences.get(n, ()):
                s = start[mate]
                if s >= 0 and s - ahead < at < s + behind:
                    at, moved = s + behind, True
        return at

    def _life(self, n: int) -> int:
        """A tile may not write a buffer so early that its last use falls into the next inference's."""
        at, last, span = 0, self.out.last, self.span
        for b in self.p.begins[n]:
            if last[b] - span[b] > at:
                at = last[b] - span[b]
        return at

    def _settle(self, n: int, start: int, instance: int) -> None:
        p, out = self.p, self.out
        out.start[n], out.instance[n] = start, instance
        if start + p.tail[n] > self.limit:
            raise InfeasibleII(start + p.tail[n])
        if self.repeats and (p.ends[n] or p.begins[n]):
            self._live_ranges(n, start)
        earliest = self.earliest
        for user, lag in self.after[n]:
            if start + lag > earliest[user]:
                earliest[user] = start + lag

    def _live_ranges(self, n: int, start: int) -> None:
        """The lives of the buffers that a tile begins and ends."""
        p, first, last = self.p, self.out.first, self.out.last
        for b in p.begins[n]:
            if start < first[b]:
                first[b] = start
        for b, whole in p.ends[n]:
            until = start + (p.end[n] if whole else p.beats[n])
            if until > last[b]:
                last[b] = until
            if last[b] - first[b] > self.span[b]:
                raise InfeasibleII(last[b] - first[b])

    # -- a chain --------------------------------------------------------------------------------------------------------

    def _chain(self, number: int) -> None:
        """All steps on the plane that can begin the first one earliest, or else on another that has room for all of them."""
        at = self._ready(number, 0, 0)
        plane, place = (self._best_fit(number, at) if self.slack else None) or self._kept(number, at)
        found = self._steps(number, plane, at, place)
        self.strained = found is None
        if found is None and self.ii != ONCE:
            others = (other for other in range(len(self.planes)) if other != plane)
            plane, found = next(
                ((o, f) for o in others if (f := self._steps(number, o, at)) is not None), (plane, None)
            )
        if found is None:  # no accumulator rows are free for so long: behind everything else, without a pause
            at = max(self._ready(number, step, at) for step in range(len(self.p.chains[number])))
            at = max(at, self.horizon[plane])
            found = self._steps(number, plane, at)
        if found is None:
            raise InfeasibleII(self.ii + self.p.beats[self.p.chains[number][0].uses[0]])
        places, bank = found
        self._give(number, plane, places, bank)

    def _ready(self, number: int, step: int, at: int) -> int:
        """From when on the products of a step may follow each other without a pause."""
        beats, earliest, begins = self.p.beats, self.earliest, self.p.begins
        offset = 0
        for use in self.p.chains[number][step].uses:
            if earliest[use] - offset > at:
                at = earliest[use] - offset
            if self.repeats and begins[use]:
                at = max(at, self._life(use) - offset)
            offset += beats[use]
        return at

    def _fit(
        self, number: int, step: int, plane: int, at: int, before: int = NEVER, least: int | None = None
    ) -> Place | None:
        """The place of a step on a plane, no write of it in the way of another; None if it does not begin ``before``. ``least``:
        what the plane says of that."""
        block, mated = self.p.blocks[number][step], self.mated[number][step]
        loadable = self.earliest[self.p.chains[number][step].load]
        while True:
            place = self.planes[plane].fit(block, at, loadable, before, least)
            if place is None or not mated:
                return place
            moved = 0
            for use, offset in mated:
                cycle = place.start + offset
                moved = max(moved, self._clear_of_writes(use, cycle) - cycle)
            if not moved:
                return place
            at, least = place.start + moved, None

    def _best_fit(self, number: int, at: int) -> tuple[int, Place] | None:
        """The plane and the place of the first step that leave what is free in the fewest pieces, of those the earliest."""
        block, mated = self.p.blocks[number][0], self.mated[number][0]
        loadable = self.earliest[self.p.chains[number][0].load]
        until = max(at, loadable + block.lead) + self.slack
        best, found = (3, 0), None
        for n, plane in enumerate(self.planes):
            better = plane.best_fit(block, at, loadable, until, best)
            if better is None:
                continue
            start = better[1].start
            if all(self._clear_of_writes(use, start + offset) == start + offset for use, offset in mated):
                best, found = better[0], (n, better[1])
        return found

    def _plane(self, number: int, at: int) -> tuple[int, Place]:
        """The plane on which the first step begins earliest, and its place there."""
        block = self.p.blocks[number][0]
        loadable = self.earliest[self.p.chains[number][0].load]
        least = [(plane.least(block, at, loadable), n) for n, plane in enumerate(self.planes)]
        least.sort()
        best: Place | None = None
        where, until = 0, NEVER
        for start, plane in least:
            if start > until or (start == until and plane > where):
                break  # neither this plane nor those behind are better
            before = until + (plane < where) if until < NEVER else NEVER
            place = self._fit(number, 0, plane, at, before, start) if start < NEVER else None
            if place is not None and (place.start, plane) < (until, where):
                best, where, until = place, plane, place.start
        if best is None:
            raise InfeasibleII(self.ii + self.p.blocks[number][0].beats)
        return where, best

    def _kept(self, number: int, at: int) -> tuple[int, Place]:
        """A plane that keeps the weights of the first step, where it begins less than a load later than on another; else that."""
        block, best = self.p.blocks[number][0], self._plane(number, at)
        if best[1].load is None or not self.left[block.weights]:
            return best
        for n, plane in enumerate(self.planes):
            before = best[1].start + block.load
            place = self._fit(number, 0, n, at, before) if block.weights in plane.held else None
            if place is not None and place.load is None:
                return n, place
        return best

    def _steps(
        self, number: int, plane: int, at: int, place: Place | None = None
    ) -> tuple[list[tuple[Place, int]], int] | None:
        """Reserve a place (and the LOADW that serves) for every step, and banks for all of them; None if there are none.

        ``place``: of the first step, where it is known.
        """
        p, unit = self.p, self.planes[plane]
        places: list[tuple[Place, int]] = []
        unit.begin()
        for index, step in enumerate(p.chains[number]):
            if index or place is None:
                ready = self._ready(number, index, at)
                if (
                    p.grouped and index and ready > at
                ):  # its group comes later: until then there is room for whole products
                    beats, idle = p.blocks[number][index].beats, unit.array.idle(ready)
                    ready += -idle % beats if idle > beats else 0
                place = self._fit(number, index, plane, ready)
            if place is None:
                unit.undo()
                return None
            block = p.blocks[number][index]
            places.append((place, unit.take(block, place, step.load)))
            at = place.start + block.beats
        bank = unit.bank(places[0][0].start, at, -(-p.rows[number] // self.bank))
        if bank is None:
            unit.undo()
            return None
        if at > self.horizon[plane]:
            self.horizon[plane] = at
        return places, bank

    def _give(self, number: int, plane: int, places: list[tuple[Place, int]], bank: int) -> None:
        p, out = self.p, self.out
        for block in p.blocks[number]:
            if block.weights in self.left:
                self.left[block.weights] -= 1
        for step, ((cycle, load, slot), serving) in zip(p.chains[number], places, strict=True):
            if load is None:
                out.serves[step.load] = serving
            else:
                out.slot[step.load] = slot
                self._settle(step.load, load, plane)
            for use in step.uses:
                out.slot[use], out.row[use] = slot, bank * self.bank
                self._settle(use, cycle, plane)
                cycle += p.beats[use]
