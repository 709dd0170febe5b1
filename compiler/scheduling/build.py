"""From a graph to a finished schedule: tiles with start cycles, a memory plan with addresses, an interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from compiler.errors import ModelError
from compiler.ir import Graph, Node
from compiler.isa import INSTRUCTION_DTYPE
from compiler.isa.binary import MemoryMap
from compiler.memory.plan import LiveRange, MemoryPlan
from compiler.memory.plan import plan as plan_memory
from compiler.passes.epilogue_offload import offload_epilogues, planes_are_busiest
from compiler.passes.legalise import legalise
from compiler.passes.row_tiling import in_group, strip_of, tile_rows
from compiler.scheduling import branches, list_scheduling, serialised
from compiler.scheduling.dependences import Edges, dependencies
from compiler.scheduling.initiation_interval import FREQUENT, OBJECTIVES
from compiler.scheduling.modulo_scheduler import NEVER
from compiler.targets import Target
from compiler.tiling import external
from compiler.tiling.chains import Step
from compiler.tiling.lower import lower
from compiler.tiling.space import Buffer, Space
from compiler.tiling.tile import Tile
from compiler.tiling.tiler import Tiler


@dataclass
class Plan:
    """Everything that codegen needs. ``address``: byte address of every buffer, by its number in the space.

    ``start`` is where each tile would begin if no branch skipped anything; ``latency`` is that of the longest way.
    """

    graph: Graph
    target: Target
    tiles: list[Tile]
    start: list[int]
    space: Space
    address: dict[int, int]
    map: MemoryMap
    live_ranges: list[LiveRange]  # in one arena
    arena_bound: int
    latency: int
    interval: int
    names: list[str]
    nodes: list[Node | None]
    needs: list_scheduling.Needs
    exact: bool = True
    reason: str = ""
    way: list[tuple[int, int]] | None = (
        None  # with branches: tiles of the longest way, and the cycles skipped before each
    )


@dataclass
class Tiled:
    """A graph in tiles that have no cycles and no addresses yet. ``source``: as it was given; ``graph``: as the units take it."""

    source: Graph
    graph: Graph
    tiler: Tiler
    names: list[str]
    nodes: list[Node | None]
    extent: int
    in_turns: bool
    whole: bool  # nothing goes in strips, and no epilogue is shared out

    @cached_property
    def demand(self) -> external.Demand:
        """What there must be room for at least."""
        return external.demand(self.tiler, self.extent)

    @property
    def constants(self) -> int:
        """Bytes of constants and states that stay on the chip."""
        return sum(b.size for k in ("constant", "state") for b in _of(self.tiler.space, k)) - self.demand.outside

    @property
    def least(self) -> int:
        """Bytes of on-chip memory below which there is no plan: what stays there, and all that one tile works with."""
        return self.tiler.target.on_chip(self.constants + self.demand.together, 0)

    @property
    def most(self) -> int:
        """Bytes of all buffers side by side."""
        return sum(b.size for b in self.tiler.space.buffers.values())


def build(
    graph: Graph,
    target: Target,
    on_stage: Callable[[str], None],
    extent: int = external.RESIDENT,
    copies: int = 0,
    objective: str = "balanced",
    *,
    in_turns: bool = False,
    longest: int = NEVER,
) -> Plan:
    """Schedule and place a lowered graph on a target. ``extent``: which constants lie in external memory; ``copies``:
    arenas at most (0: as many as the target has), fewer are taken where memory is short; ``objective``: what the schedule
    is to be short in (``initiation_interval.OBJECTIVES``); ``in_turns``: one operation after the other;
    ``longest``: cycles of latency that the objective "interval" may cost."""
    return builds(graph, target, on_stage, extent, copies, (objective,), in_turns=in_turns, longest=longest)[0]


def builds(
    graph: Graph,
    target: Target,
    on_stage: Callable[[str], None],
    extent: int = external.RESIDENT,
    copies: int = 0,
    objectives: Sequence[str] = OBJECTIVES,
    *,
    in_turns: bool = False,
    longest: int = NEVER,
) -> list[Plan]:
    """What ``build`` makes for each of several objectives, from the same tiles unless only the interval counts."""
    found: dict[str, Plan] = {}
    for frequent in (False, True):
        some = [objective for objective in objectives if (objective in FREQUENT) == frequent]
        if some:
            made = tiled(graph, target, on_stage, extent, in_turns=in_turns, objective=some[0])
            found |= zip(some, plans(made, on_stage, copies, some, longest), strict=True)
    return [found[objective] for objective in objectives]


def tiled(
    graph: Graph,
    target: Target,
    on_stage: Callable[[str], None],
    extent: int,
    *,
    in_turns: bool = False,
    unused: Tiled | None = None,
    objective: str = "balanced",
) -> Tiled:
    """The tiles of a lowered graph, for ``plans``; what shall lie in external memory is not yet fetched from there.
    ``unused``: such tiles, which are taken where they would be the same. ``objective``: where the interval is
    all that counts, planes lose no cycles in order to follow an image that comes in."""
    on_stage("schedule")
    given = graph
    if extent == external.RESIDENT and not in_turns and not branches.guarded(graph):
        graph = tile_rows(graph, target)
    often = objective in FREQUENT and not in_turns and not branches.guarded(graph)
    slotted = often and planes_are_busiest(graph, target)
    if often:
        graph = offload_epilogues(graph, target)
    if unused is not None and unused.source is graph and unused.whole:
        return replace(unused, extent=extent, in_turns=in_turns)
    legal = legalise(graph, target)
    tiler, names, nodes = lower(legal, target, following=not often, slotted=slotted, sparing=in_turns)
    _require_units(tiler.tiles, target, names)
    return Tiled(given, legal, tiler, names, nodes, extent, in_turns, whole=graph is given)


def plans(
    made: Tiled,
    on_stage: Callable[[str], None],
    copies: int = 0,
    objectives: Sequence[str] = OBJECTIVES,
    longest: int = NEVER,
) -> list[Plan]:
    """Schedules and places of tiles, once: the tiles are used up. ``longest``: cycles of latency that the objective "interval"
    may cost."""
    legal, tiler, names, nodes = made.graph, made.tiler, made.names, made.nodes
    target = tiler.target
    external.attach(tiler, made.extent)
    if made.in_turns:
        serialised.attach(tiler, nodes)
    data = dependencies(tiler.tiles, tiler.layout.roots, tiler.chains)

    def stretch(tiles: list[Tile], data: list[Edges], chains: list[list[Step]]) -> list_scheduling.Attempt:
        return list_scheduling.Order(tiles, data, chains, target, tiler.space).single()

    if branches.guarded(legal):
        course = branches.schedule(legal, tiler, nodes, data, stretch)
        return [_branched(course, tiler, names, nodes, on_stage)] * len(objectives)
    strips, grouped = [strip_of(node) for node in nodes], any(in_group(node) for node in nodes)
    given = list_scheduling.Order(
        tiler.tiles, data, tiler.chains, target, tiler.space, strips, grouped, tiler.low_latency
    )
    found = []
    for objective in objectives:
        best, lives, plan = _fitting(given, tiler, copies, objective, longest, on_stage)
        address, regions = _addresses(tiler.space, plan, best.copies)
        found.append(
            Plan(
                legal,
                target,
                best.tiles,
                best.done.start,
                tiler.space,
                address,
                regions,
                lives,
                plan.bound,
                best.done.latency,
                best.interval,
                names,
                nodes,
                best.needs,
            )
        )
    return found


def _fitting(
    given: list_scheduling.Order,
    tiler: Tiler,
    copies: int,
    objective: str,
    longest: int,
    on_stage: Callable[[str], None],
) -> tuple[list_scheduling.Attempt, list[LiveRange], MemoryPlan]:
    """The shortest interval whose arenas fit beside the rest; with one arena whatever it takes."""
    fixed = sum(b.size for kind in ("constant", "state") for b in _of(tiler.space, kind))
    room = tiler.target.memory_bytes - tiler.target.on_chip(fixed, len(tiler.tiles) * INSTRUCTION_DTYPE.itemsize)
    copies = copies or tiler.target.copies
    while True:
        best = given.repeated(copies, objective, longest)
        on_stage("memory")
        lives = _live_ranges(tiler.space, best.done)
        plan = plan_memory(lives, best.copies * best.interval)
        if best.copies == 1 or best.copies * plan.arena <= room:
            return best, lives, plan
        copies = max(1, min(best.copies - 1, room // plan.arena))


def _branched(
    course: branches.Course, tiler: Tiler, names: list[str], nodes: list[Node | None], on_stage: Callable[[str], None]
) -> Plan:
    """The plan of a schedule with branches: inferences follow each other, so the interval is the longest way."""
    tiles, needs, done = course.attempt.tiles, course.attempt.needs, course.attempt.done
    on_stage("memory")
    lives = _live_ranges(tiler.space, done)
    plan = plan_memory(lives, max(1, done.latency))
    address, regions = _addresses(tiler.space, plan, 1)
    return Plan(
        tiler.graph,
        tiler.target,
        tiles,
        done.start,
        tiler.space,
        address,
        regions,
        lives,
        plan.bound,
        course.bound,
        max(1, course.bound),
        names,
        nodes,
        needs,
        exact=False,
        reason=course.reason,
        way=course.way,
    )


def _require_units(tiles: list[Tile], target: Target, names: list[str]) -> None:
    """A processor may lack a unit; ``ModelError`` names the first operation that cannot do without it."""
    for tile in tiles:
        if not target.unit(tile.unit[0]).instances:
            raise ModelError(
                f"it needs the unit {tile.unit[0]!r}, which the processor does not have; choose another target",
                node=names[tile.instruction.source],
            )


def _live_ranges(space: Space, done: list_scheduling.Schedule) -> list[LiveRange]:
    """Arena buffers from the issue of their first writer to their last read (or write) end."""
    lives = []
    for b in space.buffers.values():
        if b.kind != "arena" or not b.size:
            continue
        lines = slice(b.first_line, b.first_line + b.size // space.machine.line_bytes)
        start = int(done.first[lines].min(initial=np.iinfo(np.int64).max))
        if start == np.iinfo(np.int64).max:
            continue
        end = max(int(done.ready[lines].max()), int(done.read_end[lines].max()))
        lives.append(LiveRange(b.name, b.size, start, end))
    return lives


def _addresses(space: Space, plan: MemoryPlan, copies: int) -> tuple[dict[int, int], MemoryMap]:
    """Constants at the bottom, then states, then the first of the arenas."""
    address: dict[int, int] = {}
    at = 0
    sizes = []
    for kind in ("constant", "state"):
        start = at
        for b in _of(space, kind):
            address[b.number] = at
            at += b.size
        sizes.append(at - start)
    for b in _of(space, "arena"):
        address[b.number] = at + plan.offsets.get(b.name, 0)
    return address, MemoryMap(sizes[0], sizes[1], copies * plan.arena, copies=copies)


def _of(space: Space, kind: str) -> list[Buffer]:
    return [b for b in space.buffers.values() if b.kind == kind]
