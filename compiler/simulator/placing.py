"""Where the instructions of a kind work: the pieces of all of them at once, as arrays.

What ``compiler.simulator.prepare`` finds for one instruction after the other is found here by kind. Only what all processors
must refuse is looked at; where a rule is broken, ``Unclear`` sends the program to the slow way, which says which and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from compiler.isa import TABLE, Access, Guard, Instruction, Nest, Op, Stream, Timing, accesses, pace, points
from compiler.isa.alike import Array, Kind
from compiler.isa.binary import Binary
from compiler.isa.flow import POINTS, ROWS, WHOLE
from compiler.isa.geometry import Range
from compiler.isa.limits import exceeds
from compiler.isa.lines import Common, cut, placed
from compiler.isa.numbering import numbered
from compiler.isa.timings import Timings
from compiler.simulator.forms import Form
from compiler.targets import Target

_NOTHING = 1 << 60  # the offset of a guard that excludes nothing
Bounds = tuple[Array | int, Array | int]


class Unclear(Exception):
    """A program that is not checked together: it breaks a rule, or is of a form that is rare."""


class Placed(NamedTuple):
    """One operand of all members of a kind: its forms, which of them each member has, the line that it counts from.

    ``unit``: bytes of such a line. ``low``, ``high``: by member the bytes between which it lies, in whole lines. ``fixed``:
    whether all of that is constant.
    """

    access: Access
    stream: Stream
    forms: list[Form]
    which: Array
    line: Array
    unit: int
    low: Array
    high: Array
    fixed: bool


@dataclass
class Crowd:
    """A kind, ready to run: ``timings``, and which of them (``timing``) each member has; ``reads`` and ``out``: operands."""

    kind: Kind
    unit: str
    cycle: Array
    timings: list[Timing]
    timing: Array
    reads: list[Placed]
    out: Placed | None

    @property
    def operands(self) -> list[Placed]:
        """What it reads, then what it writes."""
        return self.reads if self.out is None else [*self.reads, self.out]


class Placing:
    """Places the kinds of one program on its processor."""

    def __init__(self, binary: Binary, target: Target) -> None:
        self.binary, self.target = binary, target
        self._timings = Timings(target, binary)
        self._forms: dict[tuple[Common, int], Form] = {}

    def crowd(self, kind: Kind) -> Crowd:
        """All members of a kind; ``Unclear`` unless each stays within its unit and its memory."""
        if exceeds(self.target, self.binary, kind.most):
            raise Unclear
        records = self.binary.instructions[kind.members]
        timings, timing = self._times(kind, records)
        reads: list[Placed] = []
        out = None
        for access in accesses(self.binary, kind.first):
            found = self._placed(kind.first, access, records)
            if access.write:
                out = found
            else:
                reads.append(found)
        unit = TABLE[Op(kind.first.opcode)].unit
        return Crowd(kind, unit, records["cycle"].astype(np.int64), timings, timing, reads, out)

    def _times(self, kind: Kind, records: Array) -> tuple[list[Timing], Array]:
        periods = self._timings.repeats(kind.first)
        columns = [records[f"start{n}"] % periods[n] for n in (1, 2, 3) if periods[n] > 1]
        firsts, which = numbered([np.zeros(len(records), np.int64), *columns])
        return [self._timings.of(Instruction(*records[n].tolist())) for n in firsts.tolist()], which

    def _placed(self, i: Instruction, access: Access, records: Array) -> Placed:
        stream = self.binary.streams[access.stream]
        none = np.zeros(len(records), np.int64)
        g0 = records["g0"].astype(np.int64) if stream.g0 else none
        starts, counts = _ranges(i, access, stream, records, none)
        within = None if access.write else self._constant(stream)
        unit = self.target.line_bytes if within is None else stream.size  # where nothing waits lines make no difference
        firsts, which, line = _lines(stream, g0, starts, counts, unit)
        forms = []
        for n in firsts.tolist():
            rows, inner = ((int(start[n]), count) for start, count in zip(starts, counts, strict=True))
            forms.append(self._form(stream, int(g0[n]), rows, inner, unit))
        if within is not None:
            low, high = (np.broadcast_to(np.array(end), which.shape) for end in within)
        else:
            low, high = (
                (np.array(ends)[which] + line) * unit for ends in zip(*(form.span for form in forms), strict=True)
            )
        fixed = within is not None or bool((high <= self.binary.memory.constants).all())
        return Placed(access, stream, forms, which, line, unit, low, high, fixed)

    def _form(self, stream: Stream, g0: int, rows: Range, inner: Range, unit: int) -> Form:
        common, _ = placed(stream, g0, rows, inner, unit)
        form = self._forms.get((common, unit))
        if form is None:
            form = self._forms[common, unit] = Form(common, unit)
        return form

    def _constant(self, stream: Stream) -> tuple[int, int] | None:
        """The bytes between which all of a stream lies when those are constant."""
        reach = [(loop.extent - 1) * loop.stride for loop in stream.loops]
        low, high = (stream.base + sum(f(0, n) for n in reach) for f in (min, max))
        return (low, high + stream.size) if low >= 0 and high + stream.size <= self.binary.memory.constants else None

    def span(self, crowd: Crowd, operand: Placed, form: Form, timing: Timing) -> Bounds:
        """When the work in each line of an operand begins and ends, in cycles from issue."""
        flow = operand.access.flow
        delay = timing.latency if operand.access.write else 0
        if flow == WHOLE or (flow == ROWS and not operand.stream.g1):
            return delay, delay + timing.beats
        speed = pace(self.target, self.binary, crowd.kind.first, timing.beats, flow)
        if speed.items == 1:
            return delay, delay + timing.beats
        first, last = form.visits(flow)
        return speed.begin(first) + delay, speed.end(last) + delay


class _Part(NamedTuple):
    """A range of a nest at several starts, as ``compiler.isa.lines.Cut`` has it for one: by member the ``steps`` taken along
    every loop, and the bytes ``moved``; of what is left the first loop (``depth``), its extent and the start.

    All but ``nest`` are arrays by member, or of one for all; ``steps`` has an axis of loops behind.
    """

    nest: Nest
    steps: Array
    moved: Array
    depth: Array
    extent: Array
    start: Array

    def steps_along(self, coefficients: Sequence[int]) -> Array:
        """What the steps taken add to a guard."""
        return self.steps @ np.array(coefficients, np.int64)

    def reach(self, coefficients: Sequence[int]) -> tuple[Array, Array]:
        """The least and the most that the loops left add to a guard."""
        c = np.array((*coefficients, 0), np.int64)  # nothing is left of a nest without loops
        rest = [(loop.extent - 1) * n for loop, n in zip(self.nest, coefficients, strict=True)]
        below, above = (np.array([sum(f(0, n) for n in rest[at:]) for at in range(1, len(c) + 1)]) for f in (min, max))
        first = (self.extent - 1) * c[self.depth]
        return below[self.depth] + np.minimum(0, first), above[self.depth] + np.maximum(0, first)


def _ranges(
    i: Instruction, access: Access, stream: Stream, records: Array, none: Array
) -> tuple[list[Array], list[int]]:
    """Of an operand's rows and inner range: where each member begins, and the count that all have."""
    operand = next(o for o in TABLE[Op(i.opcode)].operands if o.field == access.role)
    starts, counts = [], []
    for number, nest, (_, count) in (
        (operand.rows, stream.g1, access.rows),
        (operand.inner, stream.g2, access.inner),
    ):
        used = bool(nest) or access.flow == POINTS
        starts.append(records[f"start{number}"].astype(np.int64) if number and used else none)
        counts.append(count if used else 1)
    return starts, counts


def _part(nest: Nest, starts: Array, count: int) -> _Part:
    first = int(starts[0])
    if not nest or (starts == first).all():
        return _same(nest, first if nest else 0, count)
    inner = [points(nest[n + 1 :]) for n in range(len(nest))]
    steps = np.zeros((len(starts), len(nest)), np.int64)
    moved, depth, extent = (np.zeros(len(starts), np.int64) for _ in range(3))
    start = starts
    left = np.ones(len(starts), np.bool_)  # it may be within one step of the next loop
    for n, loop in enumerate(nest):
        taken, rest = np.divmod(start, inner[n])
        steps[:, n] = np.where(left, taken, 0)
        moved += steps[:, n] * loop.stride
        start = np.where(left, rest, start)
        last = left & (start + count > inner[n]) if n + 1 < len(nest) else left
        depth[last] = n
        extent[last] = -(-(start[last] + count) // inner[n])
        left = left & ~last
        if not left.any():
            break
    return _Part(nest, steps, moved, depth, extent, start)


@lru_cache(maxsize=1 << 12)
def _same(nest: Nest, start: int, count: int) -> _Part:
    """One for all members."""
    steps, moved, left, begin = cut(nest, start, count)
    depth, extent = len(nest) - len(left), left[0].extent if left else 0
    return _Part(nest, *(np.array([value], np.int64) for value in (steps, moved, depth, extent, begin)))


def _lines(
    stream: Stream, g0: Array, starts: Sequence[Array], counts: Sequence[int], line_bytes: int
) -> tuple[Array, Array, Array]:
    """Members by their common form (``compiler.isa.lines``): the first of each, which each is, and the line of each."""
    parts = [
        _part(stream.g0, g0, 1),
        _part(stream.g1, starts[0], counts[0]),
        _part(stream.g2, starts[1], counts[1]),
    ]
    base = stream.base + sum((part.moved for part in parts), np.zeros(len(g0), np.int64))
    line, phase = np.divmod(base, line_bytes)
    columns = [phase, *(column for part in parts[1:] for column in (part.depth, part.extent, part.start))]
    columns += [_offset(stream, guard, parts) for guard in stream.guards]
    firsts, which = numbered(columns)
    return firsts, which, line


def _offset(stream: Stream, guard: Guard, parts: Sequence[_Part]) -> Array:
    """A guard's offset by member, the same for all members of which it excludes nothing."""
    c, a = guard.coefficients, len(stream.g0)
    groups = (c[:a], c[a : a + len(stream.g1)], c[a + len(stream.g1) :])
    offset: Array | int = guard.offset
    low: Array | int = 0
    high: Array | int = 0
    for n, (part, coefficients) in enumerate(zip(parts, groups, strict=True)):
        offset = offset + part.steps_along(coefficients)
        if n:
            below, above = part.reach(coefficients)
            low, high = low + below, high + above
    return np.where((offset + low < 0) | (offset + high >= guard.extent), offset, _NOTHING)
