"""A tile: one instruction without its start cycle, what it must wait for, and when it works on which line."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from compiler.isa import TABLE, Access, Instruction, Timing, accesses, pace
from compiler.isa.flow import ROWS, WHOLE
from compiler.tiling.space import Space

Array = np.ndarray[Any, Any]


class Span(NamedTuple):
    """Lines of the unbounded space, ascending, with the first cycle and the end of the work on each, from the issue on."""

    lines: Array
    begin: Array
    end: Array


EMPTY = Span(*(np.empty(0, np.int64) for _ in range(3)))


class Input(NamedTuple):
    """An operand that somebody writes: its field, the value, when which of its lines is read."""

    role: str
    value: str
    span: Span


@dataclass(slots=True)
class Tile:
    """``unit``: class and instance. ``writes``: lines of the unbounded space, and when. ``inputs``: operands read, with theirs.

    ``output``: the value written. ``chain``: number of the weight tile that a MATMUL uses or a
    LOADW fills on its plane (-1: none, or not yet given to a plane). ``behind``: tiles whose results must be complete,
    though it reads none of them.
    """

    instruction: Instruction
    unit: tuple[str, int]
    beats: int
    latency: int
    writes: Span
    output: str = ""
    inputs: tuple[Input, ...] = ()
    after: list[int] = field(default_factory=list)
    chain: int = -1
    behind: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Cycles from issue until all that it writes can be read."""
        return self.latency + self.beats

    @property
    def reads(self) -> Span:
        """All lines that it reads, and when. (Made when asked for: tiles are many, and few are.)"""
        return _merged([i.span for i in self.inputs])

    def on(self, i: Instruction) -> Tile:
        """The same work as an instruction of the unit that it was given to."""
        return Tile(
            i,
            (self.unit[0], i.unit),
            self.beats,
            self.latency,
            self.writes,
            self.output,
            self.inputs,
            self.after,
            self.chain,
            self.behind,
        )


def make(
    space: Space,
    instruction: Instruction,
    inputs: dict[str, str],
    output: str = "",
) -> Tile:
    """The tile of an instruction. ``inputs``: operand field (or ``index0`` ...) -> the value that it reads."""
    spec = TABLE[instruction.opcode]  # type: ignore[index]
    timing = space.timings.of(instruction)
    named: list[Input] = []
    writes = EMPTY
    for a in accesses(space.pool, instruction):
        span = _span(space, instruction, a, timing)
        if a.write:
            writes = span
        elif len(span.lines):
            named.append(Input(a.role, inputs[a.role], span))
    unit = (spec.unit, instruction.unit)
    return Tile(instruction, unit, timing.beats, timing.latency, writes, output, tuple(named))


def resident(space: Space, instruction: Instruction) -> Tile:
    """What ``make`` gives for a LOADW of constants, which nobody writes: such tiles are many."""
    timing = space.timings.of(instruction)
    return Tile(instruction, ("weights", instruction.unit), timing.beats, timing.latency, EMPTY)


def _span(space: Space, i: Instruction, a: Access, timing: Timing) -> Span:
    """When an instruction works on the lines of an operand: the numbers that the processor goes by."""
    lines, first, last = space.touched(a.stream + 1, ((i.g0, 1), a.rows, a.inner), a.flow)
    if not len(lines):
        return EMPTY
    delay = timing.latency if a.write else 0
    if a.flow == WHOLE or (a.flow == ROWS and i.count1 == 1):
        return Span(lines, *_constant(len(lines), delay, delay + timing.beats))
    key = (
        id(first),
        id(timing),
        a.write,
        a.flow,
    )  # pieces of one form share their rows (or points), tiles their timing
    found = space.times.get(key)
    if found is None:
        speed = pace(space.machine, space.pool, i, timing.beats, a.flow)
        same = (id(first), speed, delay)
        if same not in space.paced:
            space.paced[same] = (speed.begin(first) + delay, speed.end(last) + delay)
        found = space.times[key] = (first, timing, *space.paced[same])
    return Span(lines, found[2], found[3])


@lru_cache(maxsize=1 << 10)
def _constant(count: int, begin: int, end: int) -> tuple[Array, Array]:
    """The same begin and end for so many lines; nobody changes them."""
    return np.full(count, begin), np.full(count, end)


def _merged(spans: list[Span]) -> Span:
    """All lines of several operands: from the first begin to the last end."""
    if not spans:
        return EMPTY
    if len(spans) == 1:
        return spans[0]
    lines, begin, end = (np.concatenate(column) for column in zip(*spans, strict=True))
    order = np.argsort(lines, kind="stable")
    lines = lines[order]
    first = np.flatnonzero(np.append(True, lines[1:] != lines[:-1]))  # np.unique would import masked arrays
    return Span(lines[first], np.minimum.reduceat(begin[order], first), np.maximum.reduceat(end[order], first))
