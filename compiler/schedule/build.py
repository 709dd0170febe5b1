"""From a graph to a finished schedule: tiles with start cycles, a memory plan with addresses, an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from compiler.errors import ModelError
from compiler.ir.graph import Graph, Node
from compiler.isa.binary import MemoryMap
from compiler.schedule import external, memory, order
from compiler.schedule.interval import shortest
from compiler.schedule.legalise import legalise
from compiler.schedule.lower import lower
from compiler.schedule.memory import Lifetime

if TYPE_CHECKING:
    from compiler.schedule.space import Buffer, Space
    from compiler.schedule.tile import Tile
    from compiler.targets import Target


@dataclass
class Plan:
    """Everything that codegen needs. ``address``: byte address of every buffer, by its number in the space."""

    graph: Graph
    target: Target
    tiles: list[Tile]
    start: list[int]
    space: Space
    address: dict[int, int]
    map: MemoryMap
    lifetimes: list[Lifetime]
    arena_bound: int
    latency: int
    interval: int
    names: list[str]
    nodes: list[Node | None]
    needs: order.Needs


def build(graph: Graph, target: Target, on_stage: Callable[[str], None], extent: int = external.RESIDENT) -> Plan:
    """Schedule and place a lowered graph on a target. ``extent``: which constants lie in external memory."""
    on_stage("schedule")
    legal = legalise(graph, target)
    tiler, names, nodes = lower(legal, target)
    _require_units(tiler.tiles, target, names)
    external.attach(tiler, extent)
    data = order.dependencies(tiler.tiles, tiler.layout.roots, tiler.chains)
    best = order.schedule(tiler.tiles, data, tiler.chains, target, tiler.space.lines)
    tiles, needs, done = best.tiles, best.needs, best.done
    on_stage("memory")
    lives = _lifetimes(tiler.space, done)
    interval = shortest(tiles, done, lives, tiler.layout, tiler.space)
    plan = memory.plan(lives, interval)
    address, regions = _addresses(tiler.space, plan)
    return Plan(
        legal, target, tiles, done.start, tiler.space, address, regions, lives, plan.bound, done.latency,
        interval, names, nodes, needs,
    )  # fmt: skip


def _require_units(tiles: list[Tile], target: Target, names: list[str]) -> None:
    """A processor may lack a unit; ``ModelError`` names the first operation that cannot do without it."""
    for tile in tiles:
        if not target.unit(tile.unit[0]).instances:
            raise ModelError(
                f"operation {names[tile.instruction.source]!r} needs the unit {tile.unit[0]!r}, which {target.name} does not "
                "have; choose another target"
            )


def _lifetimes(space: Space, done: order.Schedule) -> list[Lifetime]:
    """Arena buffers from the issue of their first writer to their last read (or write) end."""
    lives = []
    for b in space.buffers.values():
        if b.kind != "arena" or not b.size:
            continue
        lines = slice(b.first_line, b.first_line + b.size // space.machine.line_bytes)
        start = int(done.first[lines].min())
        if start == np.iinfo(np.int64).max:
            continue
        end = max(int(done.ready[lines].max()), int(done.read_end[lines].max()))
        lives.append(Lifetime(b.name, b.size, start, end))
    return lives


def _addresses(space: Space, plan: memory.MemoryPlan) -> tuple[dict[int, int], MemoryMap]:
    """Constants at the bottom, then states, then the arena."""
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
    return address, MemoryMap(sizes[0], sizes[1], plan.arena)


def _of(space: Space, kind: str) -> list[Buffer]:
    return [b for b in space.buffers.values() if b.kind == kind]
