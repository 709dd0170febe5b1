"""The unbounded memory that tiles are made and ordered in, before the memory plan gives real addresses.

Every buffer has whole lines of its own; line numbers of the space are what hazards are tracked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from compiler.ir.mapped import release
from compiler.isa import Machine, Pool, Timing
from compiler.isa import stream as isa
from compiler.isa.flow import Pace, Touched
from compiler.isa.lines import Pieces
from compiler.isa.timings import Timings
from compiler.tiling import place as pl

Array = np.ndarray[Any, Any]

LARGE = 1 << 20  # bytes of a part that is worth giving pages back for
GAP = 1 << 44  # bytes of address space per buffer: streams of different buffers are never equal

Ranges = tuple[pl.Range, pl.Range, pl.Range]
_NONE = np.empty(0, np.int64)
_NOTHING = Touched(_NONE, _NONE, _NONE)


@dataclass
class Buffer:
    """A run of lines. ``kind``: constant, state, arena. ``number`` fixes its address in the unbounded space."""

    name: str
    kind: str
    size: int
    number: int
    first_line: int
    data: np.ndarray[Any, Any] | Callable[[], np.ndarray[Any, Any]] | None = (
        None  # or what makes it, when it is written
    )

    def contents(self) -> Array:
        """The bytes that a constant begins with."""
        made = self.data() if callable(self.data) else self.data
        assert made is not None
        return made.reshape(-1).view(np.uint8)


@dataclass
class Space:
    """All buffers, and the tables of streams and programs under construction."""

    machine: Machine
    pool: Pool = field(default_factory=Pool)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    lines: int = 0
    _streams: dict[int, pl.Stream] = field(default_factory=dict)
    _references: dict[pl.Stream, int] = field(default_factory=dict)
    _covered: dict[tuple[int, Ranges, str], Touched] = field(default_factory=dict)
    # by first rows (or points) of lines and timing, kept so that their numbers stay theirs, and operand: begins and ends
    times: dict[tuple[int, int, bool, str], tuple[Array, Timing, Array, Array]] = field(default_factory=dict)
    paced: dict[tuple[int, Pace, int], tuple[Array, Array]] = field(
        default_factory=dict
    )  # by first rows, speed and delay
    _pieces: dict[int, Pieces] = field(default_factory=dict)  # of streams, their base that in the space

    @cached_property
    def timings(self) -> Timings:
        """Cycles of instructions over the pool."""
        return Timings(self.machine, self.pool)

    def buffer(self, name: str, kind: str, size: int, data: Array | Callable[[], Array] | None = None) -> Buffer:
        """Add a buffer of ``size`` bytes, rounded up to whole lines."""
        count = self.machine.lines(size)
        made = Buffer(name, kind, count * self.machine.line_bytes, len(self.buffers) + 1, self.lines, data)
        self.buffers[name] = made
        self.lines += count
        return made

    def constant(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """A constant's bytes exactly as they lie in ``array``, in a buffer of that name (made once)."""
        if name not in self.buffers:
            self.buffer(name, "constant", array.nbytes, np.ascontiguousarray(array))
        return name

    def stream(self, s: pl.Stream) -> int:
        """The reference of a stream in the tables (unbounded addresses)."""
        found = self._references.get(s)
        if found is None:
            groups = [tuple(isa.Loop(n, step) for n, step in group) for group in s.strides()]
            guards = tuple(isa.Guard(d.extent, d.offset, d.coefficients) for d in s.guards())
            base = self.buffers[s.buffer].number * GAP + s.offset
            fill: int | float = s.fill if s.fill is not None else 0
            found = self.pool.stream(isa.Stream(s.dtype.value, base, groups[0], groups[1], groups[2], guards, fill))
            self._references[s] = found
            self._streams[found] = s
        return found

    def source(self, reference: int) -> pl.Stream:
        """The stream behind a reference."""
        return self._streams[reference]

    def touched(self, reference: int, pieces: Ranges, kind: str) -> Touched:
        """Lines of the space that a piece touches, with the first and the last row (or point) in each where the order
        ``kind`` asks for it; none for constants, which nobody writes."""
        s = self._streams[reference]
        buffer = self.buffers[s.buffer]
        if buffer.kind == "constant":
            return _NOTHING
        key = (reference, pieces, kind)
        found = self._covered.get(key)
        if found is None:
            found = self._covered[key] = self._cover(s, reference, pieces, kind, buffer)
        return found

    def _cover(self, s: pl.Stream, reference: int, pieces: Ranges, kind: str, buffer: Buffer) -> Touched:
        found = self._pieces.get(reference)
        if found is None:
            base = s.offset + buffer.first_line * self.machine.line_bytes
            inside = replace(self.pool.streams[reference - 1], base=base)
            found = self._pieces[reference] = Pieces(_anywhere(inside, s.free), self.machine.line_bytes)
        start, count = pieces[2]
        if s.free:
            times = prod(extent for extent, _ in s.free)
            start, count = (start, count) if self.pool.streams[reference - 1].g2 else (0, 1)
            start, count = start * times, count * times
        return found.lines(pieces[0][0], pieces[1], (start, count), kind)


def _anywhere(stream: isa.Stream, free: pl.Loops) -> isa.Stream:
    """Data decides where along these loops: all that it could name."""
    if not free:
        return stream
    loops = tuple(isa.Loop(count, stride) for count, stride in free)
    guards = tuple(replace(g, coefficients=(*g.coefficients, *(0 for _ in loops))) for g in stream.guards)
    return replace(stream, g2=stream.g2 + loops, guards=guards)


def relocated(stream: isa.Stream, address: dict[int, int]) -> isa.Stream:
    """A stream of the unbounded space at its real place: ``address`` maps buffer numbers to bytes."""
    number, offset = divmod(stream.base + GAP // 2, GAP)
    base = address[number] + offset - GAP // 2
    return isa.Stream(stream.dtype, base, stream.g0, stream.g1, stream.g2, stream.guards, stream.fill)


def points(extents: tuple[int, ...]) -> int:
    return prod(extents)


def written(parts: Iterable[tuple[int, Buffer]], size: int, sources: Iterable[Array]) -> bytes | memoryview:
    """The image of a region: each buffer at its place. ``sources``: what they are made of; no page of a file stays in memory."""
    if not size:
        return b""
    image = np.zeros(size, np.uint8)
    for at, buffer in parts:
        made = buffer.contents()
        image[at : at + made.size] = made
        for array in sources if made.size > LARGE else ():
            release(array)
    image.flags.writeable = False
    return image.data
