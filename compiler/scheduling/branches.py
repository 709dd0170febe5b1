"""Start cycles of a graph with guards: stretches one after the other, with a BRANCH where one may be skipped.

At a branch, and where it lands, nothing is under way: a processor that skips moves everything behind by the same number of
cycles, so that what was proved of the whole holds on every way through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.errors import ModelError
from compiler.ir import Access, Graph, Guard, Merge, Node
from compiler.ir.guards import Paths
from compiler.isa import Flag, Instruction, Op
from compiler.isa.paths import longest
from compiler.scheduling.dependences import Edges
from compiler.scheduling.list_scheduling import Attempt, Needs, Schedule
from compiler.scheduling.segments import Event, arrange
from compiler.tiling import place as pl
from compiler.tiling.chains import Step
from compiler.tiling.tile import Tile, make
from compiler.tiling.tiler import Tiler

Run = Callable[[list[Tile], "list[Edges]", "list[list[Step]]"], Attempt]


@dataclass
class Course:
    """A schedule with branches. ``bound``: cycles of the longest way; ``way``: its tiles, with what was skipped before each.
    ``reason``: the operations whose course the data decides."""

    attempt: Attempt
    bound: int
    way: list[tuple[int, int]]
    reason: str


def guarded(graph: Graph) -> list[Node]:
    """Nodes that need not be executed, and those that choose between values."""
    return [node for node in graph.nodes if node.guard is not None or isinstance(node, Merge)]


def schedule(graph: Graph, tiler: Tiler, nodes: list[Node | None], data: list[Edges], run: Run) -> Course:
    """Schedule tiles whose sources are ``nodes``; ``run`` schedules one stretch."""
    if not tiler.target.control.instances:
        first = guarded(graph)[0]
        raise ModelError(
            f"what it runs depends on the data, and {tiler.target.name} has no control unit to branch; make the condition a "
            "constant when compiling, or choose another target",
            node=first.source[0] if first.source else first.name,
        )
    paths = Paths(graph)
    events = arrange([paths.of(n.guard) if n else () for n in nodes], _needs(graph, tiler, nodes, data))
    maker = _Maker(tiler, data, run)
    for at, event in enumerate(events):
        maker.event(event, events[at + 1 :])
    rows = [t.instruction for t in maker.tiles]
    ends = [s + t.end for s, t in zip(maker.start, maker.tiles, strict=True)]
    bound, way = longest(rows, ends)
    done = Schedule(maker.start, maker.now, maker.first, maker.ready, maker.read_end)
    return Course(Attempt(maker.tiles, maker.needs, done, max(1, bound)), bound, way, _reason(graph))


def _reason(graph: Graph) -> str:
    names = dict.fromkeys(node.source[0] for node in guarded(graph) if node.source)
    return f"what runs depends on the data at {', '.join(names)}; the bound is the dearest way"


def _needs(graph: Graph, tiler: Tiler, nodes: list[Node | None], data: list[Edges]) -> list[set[int]]:
    """By source: the sources whose results it uses, those that decide whether it runs, and earlier parts of its merge."""
    source = [t.instruction.source for t in tiler.tiles]
    needs: list[set[int]] = [set() for _ in nodes]
    writers: dict[str, set[int]] = {}
    for number, tile in enumerate(tiler.tiles):
        needs[source[number]].update(source[b] for b in (*data[number], *tile.after))
        writers.setdefault(tile.output, set()).add(source[number])
    paths = Paths(graph)
    for row, node in enumerate(nodes):
        for guard in paths.of(node.guard) if node else ():
            for root in tiler.layout.roots[guard.value]:
                needs[row].update(writers.get(root, ()))
    for node in graph.nodes:
        if isinstance(node, Merge):
            _one_by_one(node, tiler, nodes, writers, needs)
    for row, found in enumerate(needs):
        found.discard(row)
    return needs


def _one_by_one(
    node: Merge, tiler: Tiler, nodes: list[Node | None], writers: dict[str, set[int]], needs: list[set[int]]
) -> None:
    """A later part of a merge is written behind the earlier ones: the last that holds is what stays."""
    copying = [
        (n.guard, row)
        for row, n in enumerate(nodes)
        if isinstance(n, Merge) and n.output == node.output and row in writers.get(node.output, ())
    ]
    before: set[int] = set()
    for guard, part in node.parts:
        if tiler.layout.joined.get(part) == node.output:
            rows = set(writers.get(part, ()))
        else:
            rows = {row for g, row in copying if g == (guard or node.guard)}
        for row in rows:
            needs[row].update(before - rows)
        before |= rows


@dataclass
class _Open:
    """A branch whose end is not known yet: its tile, and the cycle behind its decision."""

    tile: int
    since: int
    other: list[int] = field(default_factory=list)  # what runs last on the side that is finished


def _shifted(edges: Edges, by: int) -> Edges:
    return {n + by: lag for n, lag in edges.items()}


class _Maker:
    """Puts stretches one after the other."""

    def __init__(self, tiler: Tiler, data: list[Edges], run: Run) -> None:
        self.tiler, self.data, self.run = tiler, data, run
        lines = tiler.space.lines
        self.tiles: list[Tile] = []
        self.start: list[int] = []
        self._needed: list[Edges] = []
        self._anti_dependences: list[Edges] = []
        self.now = 0
        self.first = np.full(lines, np.iinfo(np.int64).max)
        self.ready = np.zeros(lines, np.int64)
        self.read_end = np.zeros(lines, np.int64)
        self._last: list[int] = []  # tiles of which the next one may be the direct successor
        self._open: list[_Open] = []
        self._by_source: dict[int, list[int]] = {}
        for number, tile in enumerate(tiler.tiles):
            self._by_source.setdefault(tile.instruction.source, []).append(number)

    @property
    def needs(self) -> Needs:
        """What every tile so far waits for."""
        return Needs(self._needed, self._anti_dependences)

    def event(self, event: Event, following: list[Event]) -> None:
        if event.kind == "run":
            self._stretch(event.sources)
        elif event.kind == "when":
            row = next(e.sources[0] for e in following if e.kind == "run")
            self._branch(event.guard, row)
        elif event.kind == "else":
            row = self.tiles[self._open[-1].tile].instruction.source
            finished = self._last
            self._branch(None, row)
            jump = self._open.pop()
            self._last = [self._close()]
            self._open.append(replace(jump, other=finished))
        else:
            self._last = [*self._last, *self._open[-1].other, self._close()]

    def _branch(self, guard: Guard | None, row: int) -> None:
        """A BRANCH at the present cycle; without a guard one that always skips."""
        space = self.tiler.space
        reference, flags = 0, 0
        if guard is not None:
            shape = self.tiler.graph.types[guard.value].shape
            place = self.tiler.place(guard.value)
            self.tiler.whole(place)
            groups = ((), tuple(range(len(shape))), ())
            reference = space.stream(pl.stream(place, Access.identity(len(shape)), shape, groups))
            flags = 0 if guard.holds else int(Flag.UNLESS)
        i = Instruction(Op.BRANCH, 0, flags=flags, source=row, a=reference, count1=1, count2=1)
        tile = make(space, i, {"a": guard.value if guard else ""})
        number = len(self.tiles)
        self._add(tile, self.now, self._behind(self._last), {})
        lines, _, end = tile.reads
        self.read_end[lines] = np.maximum(self.read_end[lines], self.now + end)
        self.now += tile.latency + tile.beats
        self._last = [number]
        self._open.append(_Open(number, self.now))

    def _close(self) -> int:
        """The innermost branch skips what was put behind it until now; its tile."""
        opened = self._open.pop()
        tile = self.tiles[opened.tile]
        skipped = len(self.tiles) - opened.tile - 1
        tile.instruction = tile.instruction._replace(start3=self.now - opened.since, count3=skipped)
        return opened.tile

    def _behind(self, tiles: list[int]) -> Edges:
        return {n: self.tiles[n].end for n in tiles}

    def _add(self, tile: Tile, start: int, data: Edges, holds: Edges) -> None:
        self.tiles.append(tile)
        self.start.append(start)
        self._needed.append(data)
        self._anti_dependences.append(holds)

    def _stretch(self, sources: tuple[int, ...]) -> None:
        numbers = sorted(n for row in sources for n in self._by_source.get(row, ()))
        if not numbers:
            return
        attempt = self.run(*self._alone(numbers))
        base, before = len(self.tiles), self._last
        for n, tile in enumerate(attempt.tiles):
            data, holds = (_shifted(edges[n], base) for edges in (attempt.needs.data, attempt.needs.anti_dependences))
            self._add(tile, attempt.done.start[n] + self.now, data or self._behind(before), holds)
        self._lines(attempt.done)
        self.now += attempt.done.latency
        ends = [s + t.end for s, t in zip(attempt.done.start, attempt.tiles, strict=True)]
        self._last = [base + max(range(len(ends)), key=lambda n: (ends[n], -n))]

    def _alone(self, numbers: list[int]) -> tuple[list[Tile], list[Edges], list[list[Step]]]:
        """Some of the tiles with numbers of their own, what they need of each other, and their chains."""
        local = {n: at for at, n in enumerate(numbers)}

        def inside(several: Iterable[int]) -> list[int]:
            return [local[n] for n in several if n in local]

        tiles = [self.tiler.tiles[n] for n in numbers]
        chains = [
            [replace(step, load=local[step.load], uses=inside(step.uses)) for step in chain]
            for chain in self.tiler.chains
            if chain[0].load in local
        ]
        return (
            [replace(t, after=inside(t.after), behind=tuple(inside(t.behind))) for t in tiles],
            [{local[b]: lag for b, lag in self.data[n].items() if b in local} for n in numbers],
            chains,
        )

    def _lines(self, done: Schedule) -> None:
        """When lines are written and read, in the time of the whole."""
        used = done.first != np.iinfo(np.int64).max
        self.first[used] = np.minimum(self.first[used], done.first[used] + self.now)
        for mine, other in ((self.ready, done.ready), (self.read_end, done.read_end)):
            used = other > 0
            mine[used] = np.maximum(mine[used], other[used] + self.now)
