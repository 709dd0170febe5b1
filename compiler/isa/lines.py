"""Lines that a piece of a stream touches, found once for all pieces that differ only in where they lie.

Tiles of one operation are the same piece at other places. A piece is brought to a common form: loops that it does not step
along go, its ranges begin as early as they can, guards that exclude none of it go, and its address is that within a line.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from compiler.isa import flow
from compiler.isa.flow import Touched
from compiler.isa.geometry import Range
from compiler.isa.stream import Guard, Loop, Nest, Stream, points

KEPT = 1 << 12  # common forms remembered


class Common(NamedTuple):
    """A piece in its common form: the same elements in the same order, ``base`` included."""

    stream: Stream
    rows: Range
    inner: Range


class Cut(NamedTuple):
    """A range of a nest with the loops it stays at one step of taken off: ``steps`` taken along every loop, their bytes,
    loops left, start in those."""

    steps: tuple[int, ...]
    moved: int
    left: Nest
    start: int


@lru_cache(maxsize=1 << 16)
def cut(nest: Nest, start: int, count: int) -> Cut:
    steps = [0] * len(nest)
    moved = at = 0
    left = nest
    while left:
        inner = points(left[1:])
        steps[at], start = divmod(start, inner)
        moved += steps[at] * left[0].stride
        if start + count > inner or len(left) == 1:
            left = (Loop(-(-(start + count) // inner), left[0].stride), *left[1:])
            break
        left, at = left[1:], at + 1
    return Cut(tuple(steps), moved, left, start if nest else 0)


def _cuts(stream: Stream, g0: int, rows: Range, inner: Range) -> tuple[int, Cut, Cut, tuple[Guard, ...]]:
    """Address of a piece, what is left of its rows and of its inner loops, and of its guards."""
    first = cut(stream.g0, g0 if stream.g0 else 0, 1)
    second, third = cut(stream.g1, *rows), cut(stream.g2, *inner)
    guards: tuple[Guard, ...] = ()
    if stream.guards:
        steps = first.steps + second.steps + third.steps
        guards = _needed(stream, steps, (second.left, third.left))
    return stream.base + first.moved + second.moved + third.moved, second, third, guards


def common(stream: Stream, g0: int, rows: Range, inner: Range) -> Common:
    """The common form of a piece, at its own address."""
    base, second, third, guards = _cuts(stream, g0, rows, inner)
    made = Stream(stream.dtype, base, (), second.left, third.left, guards, stream.fill)
    return Common(made, (second.start, rows[1]), (third.start, inner[1]))


def _needed(stream: Stream, steps: tuple[int, ...], left: tuple[Nest, Nest]) -> tuple[Guard, ...]:
    """Guards that may exclude something, counted from the steps taken."""
    b = len(stream.g0) + len(stream.g1)
    found = []
    for guard in stream.guards:
        c = guard.coefficients
        offset = guard.offset + sum(s * n for s, n in zip(steps, c, strict=True))
        rest = c[b - len(left[0]) : b] + c[len(c) - len(left[1]) :]
        reach = [(loop.extent - 1) * n for loop, n in zip(left[0] + left[1], rest, strict=True)]
        low, high = offset + sum(min(0, n) for n in reach), offset + sum(max(0, n) for n in reach)
        if low < 0 or high >= guard.extent:
            found.append(Guard(guard.extent, offset, rest))
    return tuple(found)


def placed(stream: Stream, g0: int, rows: Range, inner: Range, line_bytes: int) -> tuple[Common, int]:
    """The common form of a piece with its address within a line, and the line that it counts from."""
    form = common(stream, g0, rows, inner)
    s = form.stream
    line, phase = divmod(s.base, line_bytes)
    return Common(Stream(s.dtype, phase, (), s.g1, s.g2, s.guards), form.rows, form.inner), line


class _Part(NamedTuple):
    """A range of one group: bytes moved, what is left of it, and per guard what the steps add and how far the rest reaches.
    ``number``: of what is left, with the count: ranges that differ in their place alone have the same."""

    moved: int
    left: Nest
    start: int
    guards: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    number: int


class Pieces:
    """Where pieces of one stream lie: tiles that share their rows, or their inner points, share what is known of those."""

    def __init__(self, stream: Stream, line_bytes: int) -> None:
        self._stream, self._line_bytes = stream, line_bytes
        self._groups = (stream.g0, stream.g1, stream.g2)
        self._parts: dict[tuple[int, int, int], _Part] = {}
        self._numbers: dict[tuple[Nest, int, int], int] = {}
        self._found: dict[tuple[int, int, int, str, tuple[Guard, ...]], Touched] = {}

    def lines(self, g0: int, rows: Range, inner: Range, kind: str) -> Touched:
        """What ``flow.touched(flow.runs(...))`` finds for a piece. The arrays of rows (or points) are not to be changed."""
        s = self._stream
        first = self._part(0, g0 if s.g0 else 0, 1)
        second, third = self._part(1, *rows), self._part(2, *inner)
        guards: tuple[Guard, ...] = ()
        if s.guards:
            guards = _excluding(s.guards, first, second, third)
        line, phase = divmod(s.base + first.moved + second.moved + third.moved, self._line_bytes)
        key = (phase, second.number, third.number, kind, guards)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = _found(
                s.dtype,
                phase,
                second.left,
                third.left,
                guards,
                second.start,
                rows[1],
                third.start,
                inner[1],
                self._line_bytes,
                kind,
            )
        return Touched(found.lines + line, found.first, found.last)

    def _part(self, group: int, start: int, count: int) -> _Part:
        key = (group, start, count)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = self._cut(group, start, count)
        return found

    def _cut(self, group: int, start: int, count: int) -> _Part:
        nest = self._groups[group]
        steps, moved, left, begin = cut(nest, start, count)
        at = sum(len(g) for g in self._groups[:group])
        guards = []
        for guard in self._stream.guards:
            c = guard.coefficients[at : at + len(nest)]
            rest = c[len(c) - len(left) :] if group else ()
            reach = [(loop.extent - 1) * n for loop, n in zip(left, rest, strict=True)] if group else []
            low, high = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
            guards.append((sum(s * n for s, n in zip(steps, c, strict=True)), low, high, rest))
        number = self._numbers.setdefault((left, begin, count), len(self._numbers))
        return _Part(moved, left, begin, tuple(guards), number)


def _excluding(guards: tuple[Guard, ...], *parts: _Part) -> tuple[Guard, ...]:
    """Guards that may exclude something of a piece made of these parts, counted from the steps taken."""
    found = []
    for guard, (at, _, _, _), (rows, low1, high1, rest1), (inner, low2, high2, rest2) in zip(
        guards, *(part.guards for part in parts), strict=True
    ):
        offset = guard.offset + at + rows + inner
        if offset + low1 + low2 < 0 or offset + high1 + high2 >= guard.extent:
            found.append(Guard(guard.extent, offset, rest1 + rest2))
    return tuple(found)


@lru_cache(maxsize=KEPT)
def _found(
    dtype: str,
    phase: int,
    g1: Nest,
    g2: Nest,
    guards: tuple[Guard, ...],
    first: int,
    rows: int,
    second: int,
    inner: int,
    line_bytes: int,
    kind: str,
) -> Touched:
    """``lines_of`` by plain values: what is known already is found without making a form of it."""
    form = Common(Stream(dtype, phase, (), g1, g2, guards), (first, rows), (second, inner))
    return lines_of(form, line_bytes, kind)


@lru_cache(maxsize=KEPT)
def lines_of(form: Common, line_bytes: int, kind: str) -> Touched:
    """Lines of a common form, counted from the one that holds its address."""
    return flow.touched(flow.runs(form.stream, 0, form.rows, form.inner, line_bytes, kind), line_bytes)
