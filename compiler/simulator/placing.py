"""Where the instructions of a kind work: the pieces of all of them at once, as arrays.

What ``compiler.simulator.prepare`` finds for one instruction after the other is found here by kind. Only what all processors
must refuse is looked at; where a rule is broken, ``Unclear`` sends the program to the slow way, which says which and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from compiler.isa.alike import Array, Kind
from compiler.isa.flow import POINTS, ROWS, WHOLE
from compiler.isa.instruction import Instruction, Op
from compiler.isa.limits import exceeds
from compiler.isa.lines import Common, Cut, cut, placed
from compiler.isa.stream import Guard, Nest, Stream
from compiler.isa.table import TABLE, Access, Timing, accesses, pace
from compiler.isa.timings import Timings
from compiler.simulator.forms import Form

if TYPE_CHECKING:
    from compiler.isa.binary import Binary
    from compiler.targets import Target

_NOTHING = 1 << 60  # the offset of a guard that excludes nothing
Bounds = tuple[Array | int, Array | int]


class Unclear(Exception):
    """A program that is not checked together: it breaks a rule, or is of a form that is rare."""


class Placed(NamedTuple):
    """One operand of all members of a kind: its forms, which of them each member has, the line that it counts from."""

    access: Access
    stream: Stream
    forms: list[Form]
    which: Array
    line: Array


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


class Placing:
    """Places the kinds of one program on its processor."""

    def __init__(self, binary: Binary, target: Target) -> None:
        self.binary, self.target = binary, target
        self._timings = Timings(target, binary)
        self._forms: dict[Common, Form] = {}

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
        columns = [records[f"start{n}"] % periods[n] for n in (1, 2, 3)]
        firsts, which = numbered(columns)
        return [self._timings.of(Instruction(*records[n].tolist())) for n in firsts.tolist()], which

    def _placed(self, i: Instruction, access: Access, records: Array) -> Placed:
        stream = self.binary.streams[access.stream]
        operand = next(o for o in TABLE[Op(i.opcode)].operands if o.field == access.role)
        points = access.flow == POINTS
        none = np.zeros(len(records), np.int64)
        g0 = records["g0"].astype(np.int64) if stream.g0 else none
        starts, counts = [], []
        for number, nest, (_, count) in (
            (operand.rows, stream.g1, access.rows),
            (operand.inner, stream.g2, access.inner),
        ):
            used = bool(nest) or points
            starts.append(records[f"start{number}"].astype(np.int64) if number and used else none)
            counts.append(count if used else 1)
        firsts, which, line = _lines(stream, g0, starts, counts, self.target.line_bytes)
        forms = []
        for n in firsts.tolist():
            rows, inner = ((int(start[n]), count) for start, count in zip(starts, counts, strict=True))
            common, _ = placed(stream, int(g0[n]), rows, inner, self.target.line_bytes)
            form = self._forms.get(common)
            if form is None:
                form = self._forms[common] = Form(common, self.target.line_bytes)
            forms.append(form)
        return Placed(access, stream, forms, which, line)

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


def numbered(columns: Sequence[Array]) -> tuple[Array, Array]:
    """Rows of a table with whole numbers in ``columns``, numbered by what they hold: the first row of each number, and the
    number of every row."""
    code = np.zeros(len(columns[0]), np.int64)
    most = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if low != high:
            if most * (high - low + 1) > _WIDE:
                code, most = _dense(code)
                _, column = np.unique(column, return_inverse=True)
                low, high = 0, int(column.max())
            code = code * (high - low + 1) + (column - low)
            most *= high - low + 1
    if most == 1:
        return np.zeros(1, np.int64), code
    if most > 4 * len(code) + 64:
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        return first, code
    first = np.full(most, -1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    there = np.flatnonzero(first >= 0)
    number = np.empty(most, np.int64)
    number[there] = np.arange(len(there))
    return first[there], number[code]


_WIDE = 1 << 40


def _dense(code: Array) -> tuple[Array, int]:
    _, code = np.unique(code, return_inverse=True)
    return code, int(code.max()) + 1


class _Part(NamedTuple):
    """A range of a nest at several starts: cuts, which of them each member has, which of them are alike."""

    cuts: list[Cut]
    which: Array
    alike: Array

    def spread(self, values: Sequence[int]) -> Array:
        """By member, from a value for each cut."""
        return np.array(values, np.int64)[self.which]


def _part(nest: Nest, starts: Array, count: int) -> _Part:
    if not nest or int(starts.min()) == int(starts.max()):
        return _Part([cut(nest, int(starts[0]), count)], np.zeros(len(starts), np.int64), np.zeros(1, np.int64))
    firsts, which = numbered([starts])
    cuts = [cut(nest, start, count) for start in starts[firsts].tolist()]
    seen: dict[tuple[Nest, int], int] = {}
    return _Part(cuts, which, np.array([seen.setdefault((c.left, c.start), len(seen)) for c in cuts]))


def _lines(
    stream: Stream, g0: Array, starts: Sequence[Array], counts: Sequence[int], line_bytes: int
) -> tuple[Array, Array, Array]:
    """Members by their common form (``compiler.isa.lines``): the first of each, which each is, and the line of each."""
    parts = [
        _part(stream.g0, g0, 1),
        _part(stream.g1, starts[0], counts[0]),
        _part(stream.g2, starts[1], counts[1]),
    ]
    base = stream.base + sum(part.spread([c.moved for c in part.cuts]) for part in parts)
    line, phase = np.divmod(base, line_bytes)
    columns = [phase, parts[1].alike[parts[1].which], parts[2].alike[parts[2].which]]
    columns += [_offset(stream, guard, parts) for guard in stream.guards]
    firsts, which = numbered(columns)
    return firsts, which, line


def _offset(stream: Stream, guard: Guard, parts: Sequence[_Part]) -> Array:
    """A guard's offset by member, the same for all members of which it excludes nothing."""
    c, a = guard.coefficients, len(stream.g0)
    groups = (c[:a], c[a : a + len(stream.g1)], c[a + len(stream.g1) :])
    offset = np.full(len(parts[0].which), guard.offset, np.int64)
    low, high = np.zeros_like(offset), np.zeros_like(offset)
    for n, (part, coefficients) in enumerate(zip(parts, groups, strict=True)):
        offset = offset + part.spread([_dot(cut.steps, coefficients) for cut in part.cuts])
        if n:
            reach = [_reach(cut, coefficients) for cut in part.cuts]
            low, high = low + part.spread([r[0] for r in reach]), high + part.spread([r[1] for r in reach])
    return np.where((offset + low < 0) | (offset + high >= guard.extent), offset, _NOTHING)


def _dot(steps: Sequence[int], coefficients: Sequence[int]) -> int:
    return sum(s * c for s, c in zip(steps, coefficients, strict=True))


def _reach(cut: Cut, coefficients: Sequence[int]) -> tuple[int, int]:
    """The least and the most that the loops left add to a guard."""
    rest = coefficients[len(coefficients) - len(cut.left) :]
    steps = [(loop.extent - 1) * c for loop, c in zip(cut.left, rest, strict=True)]
    return sum(min(0, s) for s in steps), sum(max(0, s) for s in steps)
