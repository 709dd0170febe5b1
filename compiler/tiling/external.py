"""Constants that lie in external memory: pieces of them are fetched ahead of their use, into buffers of the arena.

Works on the finished list of tiles, so that no tiling knows about it. Tiles are taken in order; whatever reads an external
constant gets a buffer with the bytes that it reads, and FETCH tiles that fill it. A piece that is used again soon is kept,
where "soon" is counted in fetched bytes; and a fetch waits for work so far back that no more than the processor's
``ahead`` bytes are on the chip before their turn. Both rules keep the arena small without knowing the schedule.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from compiler.ir import Access, DType
from compiler.isa import Instruction, Loop, Op, accesses, flow
from compiler.targets import Target
from compiler.tiling import place as pl
from compiler.tiling.budget import Tiles
from compiler.tiling.space import Buffer, Space, written
from compiler.tiling.tile import Tile, make
from compiler.tiling.tiler import Tiler

RESIDENT, WEIGHTS, EVERYTHING = range(
    3
)  # what lies in external memory: nothing, what planes multiply with, all constants
SMALL = 4096  # bytes of a constant that always stays on the chip unless planes load it
KEPT = 4  # of on-chip memory, one part in so many holds pieces that are used again

Bytes = tuple[str, int, int]  # buffer, first byte, end


@dataclass
class Piece:
    """Bytes on the chip. ``position``: bytes fetched when they were last used."""

    buffer: str
    low: int
    position: int
    fetches: list[int]


@dataclass
class _Walk:
    """The new list of tiles as it grows. ``done``: (position, tiles) of everything that has used fetched bytes."""

    tiler: Tiler
    outside: dict[str, int]
    tiles: Tiles = field(default_factory=lambda: Tiles(sys.maxsize))
    number: list[int] = field(default_factory=list)  # old tile -> new
    held: dict[Bytes, Piece] = field(default_factory=dict)
    fetched: int = 0
    positions: list[int] = field(default_factory=list)
    done: list[list[int]] = field(default_factory=list)


def offsets(space: Space) -> dict[str, int]:
    """Where the constants outside begin in external memory."""
    found, at = {}, 0
    for b in space.buffers.values():
        if b.kind == "external":
            found[b.name] = at
            at += b.size
    return found


def image(space: Space, constants: Iterable[np.ndarray[Any, Any]]) -> bytes | memoryview:
    """External memory as it is when the program has been loaded. ``constants``: those of the graph."""
    outside = [(at, space.buffers[name]) for name, at in offsets(space).items()]
    return written(outside, sum(b.size for _, b in outside), constants)


def extents(target: Target) -> range:
    """What may lie outside on this processor, the least first."""
    if not target.external.instances:
        return range(RESIDENT, RESIDENT + 1)
    return range(WEIGHTS if target.external.all_weights else RESIDENT, EVERYTHING + 1)


class Demand(NamedTuple):
    """What a list of tiles asks for if constants lie outside. ``outside``: bytes of these; ``together``: the most bytes of
    buffers that one tile works with, those of the arena and what is fetched for it; ``lines``: that tiles read of what
    is fetched."""

    outside: int
    together: int
    lines: int


def demand(tiler: Tiler, extent: int) -> Demand:
    """What ``attach`` and the schedule would have to find room for at least."""
    chosen = {*_chosen(tiler, extent)}
    buffers, source = tiler.space.buffers, tiler.space.source
    known: dict[tuple[bool, frozenset[str]], tuple[int, int]] = {}
    lines = 0
    for tile in tiler.tiles:
        parts = tile.instruction.opcode == Op.LOADW  # weights are fetched as they are needed, other constants whole
        used = frozenset(source(a.stream + 1).buffer for a in accesses(tiler.space.pool, tile.instruction))
        if (parts, used) not in known:
            fetched = 0 if parts else sum(buffers[b].size for b in used if b in chosen)
            arena = sum(buffers[b].size for b in used if buffers[b].kind == "arena")
            known[parts, used] = (arena + fetched, fetched // tiler.target.line_bytes)
        lines += known[parts, used][1]
    together = max((size for size, _ in known.values()), default=0)
    return Demand(sum(buffers[b].size for b in chosen), together, lines)


def attach(tiler: Tiler, extent: int) -> None:
    """Move constants out of on-chip memory and put fetches in front of their readers. ``extent``: how many of them."""
    for name in _chosen(tiler, extent):
        tiler.space.buffers[name].kind = "external"
    outside = offsets(tiler.space)
    if not outside:
        return
    chain_at = {chain[0].load: chain for chain in tiler.chains}
    walk = _Walk(tiler, outside)
    old = tiler.tiles
    n = 0
    while n < len(old):
        numbers = sorted(m for step in chain_at.get(n, ()) for m in (step.load, *step.uses)) or [n]
        assert numbers == list(range(n, n + len(numbers))), "a chain's tiles follow each other"
        _event(walk, [old[m] for m in numbers])
        n += len(numbers)
    _renumber(walk)


def _chosen(tiler: Tiler, extent: int) -> list[str]:
    """Constants that shall lie outside."""
    if extent < WEIGHTS:
        return []
    factors, read, indices = _uses(tiler)
    only_factors = factors - read
    for b in tiler.space.buffers.values():  # what was only laid out to compare ways of computing takes no memory
        if b.kind == "constant" and b.size > SMALL and b.name not in factors | read | indices:
            b.size, b.data = 0, None

    def wanted(b: Buffer) -> bool:
        return b.name in only_factors or (extent >= EVERYTHING and b.size > SMALL)

    constants = (b for b in tiler.space.buffers.values() if b.kind == "constant" and b.size)
    return [b.name for b in constants if b.name not in indices and wanted(b)]


def _uses(tiler: Tiler) -> tuple[set[str], set[str], set[str]]:
    """Buffers that are read as factors of contractions, in another way, and as indices."""
    factors: set[str] = set()
    read: set[str] = set()
    indices: set[str] = set()
    for tile in tiler.tiles:
        for a in accesses(tiler.space.pool, tile.instruction):
            factor = tile.instruction.opcode in (Op.LOADW, Op.MATMUL) and a.role == "a"
            kind = indices if a.role.startswith("index") else factors if factor else read
            kind.add(tiler.space.source(a.stream + 1).buffer)
    return factors, read, indices


def _event(walk: _Walk, tiles: list[Tile]) -> None:
    """A chain, or a tile of its own: what it reads outside is fetched before it."""
    pieces = [(key, _piece(walk, key, source)) for key, source in _wanted(walk, tiles)]
    first = len(walk.tiles)
    for tile in tiles:
        walk.number.append(len(walk.tiles))
        walk.tiles.append(_redirected(walk, tile, pieces) if pieces else tile)
    if pieces:
        walk.positions.append(walk.fetched)
        walk.done.append([n for n in range(first, len(walk.tiles)) if walk.tiles[n].unit[0] != "weights"])


def _wanted(walk: _Walk, tiles: list[Tile]) -> list[tuple[Bytes, int]]:
    """Bytes outside that tiles read, with the operation: neighbouring weight tiles together, other constants whole."""
    limit = walk.tiler.target.external.tile
    found: list[tuple[Bytes, int]] = []
    for tile in tiles:
        i = tile.instruction
        for a in accesses(walk.tiler.space.pool, i):
            s = walk.tiler.space.source(a.stream + 1)
            if a.write or s.buffer not in walk.outside:
                continue
            low, high = 0, walk.tiler.space.buffers[s.buffer].size
            if i.opcode == Op.LOADW:
                low, high = span(s, ((i.g0, 1), a.rows, a.inner), high)
            last = found[-1][0] if found else ("", 0, 0)
            if last[0] == s.buffer and last[2] == low and high - last[1] <= limit:
                found[-1] = ((s.buffer, last[1], high), i.source)
            elif all(key != (s.buffer, low, high) for key, _ in found):
                found.append(((s.buffer, low, high), i.source))
    return found


def span(s: pl.Stream, pieces: tuple[pl.Range, pl.Range, pl.Range], size: int) -> tuple[int, int]:
    """First byte and end of what a piece of a stream covers in its buffer of ``size`` bytes. (A band's cells that are off have
    addresses outside of it, which nobody reads.)"""
    low = high = s.offset
    for nest, (start, count) in zip(s.strides(), pieces, strict=True):
        if not nest:
            continue
        at = flow.offsets(tuple(Loop(*loop) for loop in nest), start, count)
        low, high = low + int(at.min()), high + int(at.max())
    return max(0, low), min(size, high + s.dtype.size)


def _piece(walk: _Walk, key: Bytes, source: int) -> Piece:
    """The bytes on the chip: those that are there already, or newly fetched ones."""
    space = walk.tiler.space
    window = walk.tiler.target.memory_bytes // KEPT
    found = walk.held.get(key)
    if found is not None and walk.fetched - found.position <= window:
        found.position = walk.fetched
        return found
    name, low, high = key
    buffer = walk.tiler.fresh(f"{name}@{low}")
    space.buffer(buffer, "arena", high - low)
    walk.tiler.layout.roots[buffer] = (buffer,)
    behind = _behind(walk, high - low)
    place = pl.Place(buffer, DType.U8, (high - low,), 0, (1,))
    out = space.stream(pl.stream(place, Access.identity(1), place.shape, ((), (0,), ())))
    fetches = []
    step = walk.tiler.target.external.tile
    for at in range(0, high - low, step):
        count = min(step, high - low - at)
        i = Instruction(
            Op.FETCH, source=source, out=out, offset=walk.outside[name] + low + at, start1=at, count1=count, count2=1
        )
        fetches.append(len(walk.tiles))
        walk.tiles.append(replace(make(space, i, {}, buffer), behind=behind))
    walk.fetched += high - low
    piece = walk.held[key] = Piece(buffer, low, walk.fetched, fetches)
    return piece


def _behind(walk: _Walk, size: int) -> tuple[int, ...]:
    """Tiles that must be done before ``size`` more bytes are fetched: the newest so far back that the rest fits."""
    allowed = walk.fetched + size - max(walk.tiler.target.external.ahead, 2 * size)
    at = bisect_right(walk.positions, allowed)
    return tuple(walk.done[at - 1]) if at else ()


def _redirected(walk: _Walk, tile: Tile, pieces: list[tuple[Bytes, Piece]]) -> Tile:
    """The tile with its external operands read from their pieces on the chip."""
    space = walk.tiler.space
    fields: dict[str, int] = {}
    named = {i.role: i.value for i in tile.inputs}
    for a in accesses(space.pool, tile.instruction):
        s = space.source(a.stream + 1)
        if a.write or s.buffer not in walk.outside:
            continue
        ranges = ((tile.instruction.g0, 1), a.rows, a.inner)
        low, high = 0, space.buffers[s.buffer].size
        if tile.instruction.opcode == Op.LOADW:
            low, high = span(s, ranges, high)
        piece = next(p for key, p in pieces if key[0] == s.buffer and key[1] <= low and high <= key[2])
        fields[a.role] = space.stream(replace(s, buffer=piece.buffer, base=s.base - piece.low))
        named[a.role] = piece.buffer
    if not fields:
        return tile
    made = make(space, tile.instruction._replace(**fields), named, tile.output)
    return replace(tile, instruction=made.instruction, inputs=made.inputs)


def _renumber(walk: _Walk) -> None:
    """Everything that names tiles by number."""
    number = walk.number
    for at, tile in enumerate(walk.tiles):
        if tile.after:
            walk.tiles[at] = replace(tile, after=[number[n] for n in tile.after])
    for chain in walk.tiler.chains:
        for step in chain:
            step.load = number[step.load]
            step.uses[:] = [number[n] for n in step.uses]
    walk.tiler.tiles = walk.tiles
