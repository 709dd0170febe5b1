"""Values that live longer than the period are handed on from buffer to buffer, so that no buffer is held that long.

A buffer is written anew in every inference, so it may not be in use for longer than the period between two of them. A
value that is read early and late (a mask that every layer adds) is copied now and then, and each reader takes the youngest
copy. Source: lifetime splitting in modulo scheduling, by copies where registers cannot rotate (Huff 1993).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from compiler.ir.access import Access
from compiler.isa.table import accesses
from compiler.schedule import vector

if TYPE_CHECKING:
    from compiler.schedule.space import Buffer
    from compiler.schedule.tile import Tile
    from compiler.schedule.tiler import Tiler

KEPT = 0.6  # of a period: after so long a buffer hands on what it holds
MOST = 64  # copies of one buffer


@dataclass
class Handing:
    """A copy of a buffer: ``due`` in the schedule's cycles, and the tiles that read it instead."""

    name: str
    due: int
    readers: list[int]


def relay(tiler: Tiler, start: list[int], lives: dict[str, tuple[int, int]], period: int) -> dict[int, int]:
    """Put copies into the list of tiles wherever a buffer lives longer than ``period``.

    ``start``: of every tile in a schedule that is not repeated (-1: not in it). Answers the copies, as numbers of the new
    list, with the cycle at which each is due; nothing has changed when there are none.
    """
    readers, writers = _users(tiler)
    plans: list[tuple[Buffer, list[Handing]]] = []
    for name, (first, last) in lives.items():
        b = tiler.space.buffers[name]
        if last - first > period and _whole(tiler, b) and writers[name]:
            written = max(start[n] + tiler.tiles[n].latency + tiler.tiles[n].beats for n in writers[name])
            found = _handings(tiler, b, readers[name], start, first, written, period)
            if found:
                plans.append((b, found))
    return _insert(tiler, plans, writers) if plans else {}


def _users(tiler: Tiler) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """By buffer the tiles that read it and those that write it."""
    readers: dict[str, list[int]] = defaultdict(list)
    writers: dict[str, list[int]] = defaultdict(list)
    for n, tile in enumerate(tiler.tiles):
        for a in accesses(tiler.space.pool, tile.instruction):
            users = (writers if a.write else readers)[tiler.space.source(a.stream + 1).buffer]
            if not users or users[-1] != n:
                users.append(n)
    return readers, writers


def _whole(tiler: Tiler, b: Buffer) -> bool:
    """Whether one value fills the buffer, so that a copy of the value is a copy of the buffer."""
    place = tiler.layout.places.get(b.name)
    return b.kind == "arena" and place is not None and place.buffer == b.name and place.offset == 0


def _handings(
    tiler: Tiler, b: Buffer, readers: list[int], start: list[int], first: int, written: int, period: int
) -> list[Handing]:
    """When to copy, and who reads which copy; nothing where that would not help."""
    span = int(period * KEPT)
    cost = 4 * -(-b.size // tiler.target.line_bytes) + tiler.target.move.latency
    if written - first > span or 4 * cost > period or not tiler.target.move.instances:
        return []
    found: list[Handing] = []
    began = first
    for n in sorted((n for n in readers if start[n] >= 0), key=lambda n: (start[n], n)):
        tile = tiler.tiles[n]
        if any(a.role.startswith("index") or a.role == "old" for a in accesses(tiler.space.pool, tile.instruction)):
            return []
        end = start[n] + tile.beats
        while end - began > period * 3 // 4:
            began = max(written, min(began + span, start[n] - cost))
            if len(found) == MOST or (found and began <= found[-1].due):
                return []
            found.append(Handing(f"{b.name}>{len(tiler.space.buffers)}", began, []))
            tiler.space.buffer(found[-1].name, "arena", b.size)
        if found:
            found[-1].readers.append(n)
    return found


def _insert(tiler: Tiler, plans: list[tuple[Buffer, list[Handing]]], writers: dict[str, list[int]]) -> dict[int, int]:
    """The new list of tiles: copies behind the last tile that writes what they copy."""
    old = tiler.tiles
    behind: dict[int, list[tuple[Tile, int]]] = defaultdict(list)
    changed = list(old)
    for b, handings in plans:
        at = max(writers[b.name])
        tiler.source = old[at].instruction.source
        source = b.name
        for handing in handings:
            behind[at] += [(tile, handing.due) for tile in _copies(tiler, source, handing.name)]
            source = handing.name
            for n in handing.readers:
                changed[n] = _redirected(tiler, changed[n], b, tiler.space.buffers[source])
    tiler.tiles = []
    number: list[int] = []
    due: dict[int, int] = {}
    for n, tile in enumerate(changed):
        number.append(len(tiler.tiles))
        tiler.tiles.append(tile)
        for copy, cycle in behind.get(n, ()):
            due[len(tiler.tiles)] = cycle
            tiler.tiles.append(copy)
    _renumber(tiler, number)
    return due


def _copies(tiler: Tiler, source: str, name: str) -> list[Tile]:
    """MOVE tiles from one buffer to the next."""
    place = tiler.layout.places[source]
    home = replace(place, buffer=name)
    tiler.layout.places[name] = home
    tiler.layout.roots[name] = (name,)
    kept, tiler.tiles = tiler.tiles, []
    vector.copy(place, home, Access.identity(len(place.shape)), None, (source, name), tiler)
    made, tiler.tiles = tiler.tiles, kept
    return made


def _redirected(tiler: Tiler, tile: Tile, old: Buffer, new: Buffer) -> Tile:
    """The tile with what it reads from one buffer read from another."""
    space = tiler.space
    fields: dict[str, int] = {}
    for a in accesses(space.pool, tile.instruction):
        s = space.source(a.stream + 1)
        if s.buffer == old.name and not a.write:
            fields[a.role] = space.stream(replace(s, buffer=new.name))
    low, high = old.first_line, old.first_line + old.size // space.machine.line_bytes
    step = new.first_line - low
    inputs = tuple(
        (new.name, lines + step) if len(lines) and low <= lines[0] < high else (value, lines)
        for value, lines in tile.inputs
    )
    reads = np.unique(np.concatenate([lines for _, lines in inputs]))
    return replace(tile, instruction=tile.instruction._replace(**fields), reads=reads, inputs=inputs)


def _renumber(tiler: Tiler, number: list[int]) -> None:
    """Everything that names tiles by number."""
    for at, tile in enumerate(tiler.tiles):
        if tile.after or tile.behind:
            after, behind = [number[n] for n in tile.after], tuple(number[n] for n in tile.behind)
            tiler.tiles[at] = replace(tile, after=after, behind=behind)
    for chain in tiler.chains:
        for step in chain:
            step.load = number[step.load]
            step.uses[:] = [number[n] for n in step.uses]
