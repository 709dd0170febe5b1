"""What can be known of each instruction before it runs: timing, pieces, limits. Done once per program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from compiler.isa import (
    TABLE,
    Access,
    GatherAxis,
    Instruction,
    Op,
    Spec,
    Timing,
    accesses,
    fetched,
    moved_by_data,
    pace,
    time,
)
from compiler.isa.binary import Binary
from compiler.isa.flow import POINTS, ROWS, WHOLE, Pace, offsets
from compiler.isa.limits import exceeds
from compiler.isa.lines import Common
from compiler.simulator.fault import SimulationError
from compiler.simulator.forms import Array, Form, taken
from compiler.simulator.pieces import Lines, OutsideError, Piece, marked
from compiler.targets import Target

Span = tuple[Array | int, Array | int]


_Shape = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Check(NamedTuple):
    """What is watched of one operand that is read: its piece, the lines that may be read, from when to when, and whether
    index streams say where."""

    piece: Piece
    lines: Lines
    begin: Array | int
    end: Array | int
    moved: bool


@dataclass
class Prepared:
    """One instruction, ready to run any number of times.

    ``reads``: role -> piece; ``checks``: what is watched of each of them.
    ``spans``: per role, the result's too, when its work in each of the lines begins and ends, in cycles from its issue.
    ``read_bytes``, ``out_bytes``: bytes taken from memory and put there.
    """

    number: int
    i: Instruction
    spec: Spec
    unit: str
    timing: Timing
    reads: dict[str, Piece]
    checks: tuple[Check, ...]
    out: Piece | None
    spans: dict[str, Span]
    read_bytes: int
    out_bytes: int


class _Key(NamedTuple):
    stream: int
    g0: int
    rows: tuple[int, int]
    inner: tuple[int, int]


def _shape(i: Instruction) -> _Shape:
    """What decides an instruction's cycles: all its fields but cycle, source, unit, slot, row, port, g0 and offset."""
    return i.opcode, i.flags, i[7:15], i[16:18], i[19:25]


class Preparation:
    """Prepares all instructions of a program for one target; pieces are shared between instructions."""

    def __init__(self, binary: Binary, target: Target) -> None:
        self.binary = binary
        self.target = target
        self._pieces: dict[_Key, Piece] = {}
        self._timings: dict[_Shape, Timing] = {}
        self._paces: dict[tuple[_Shape, str], Pace] = {}
        self._forms: dict[Common, Form] = {}
        self._spans: dict[tuple[Form, str, int, Pace], Span] = {}

    def error(self, number: int, i: Instruction, reason: str, cycle: int | None = None) -> SimulationError:
        sources = self.binary.sources
        return SimulationError(
            f"{Op(i.opcode).name}: {reason}",
            cycle=i.cycle if cycle is None else cycle,
            unit=f"{TABLE[Op(i.opcode)].unit}[{i.unit}]",
            instruction=number,
            source=sources[i.source] if i.source < len(sources) else "",
        )

    def run(self) -> list[Prepared]:
        return [self._prepare(number, i) for number, i in enumerate(self.binary.rows)]

    def _prepare(self, number: int, i: Instruction) -> Prepared:
        reason = exceeds(self.target, self.binary, i)
        if reason:
            raise self.error(number, i, reason)
        reads: dict[str, Piece] = {}
        hazard: dict[str, Lines] = {}
        out: Piece | None = None
        read_bytes = out_bytes = 0
        timing, spans = self._time(i), {}
        try:
            for access in accesses(self.binary, i):
                piece = out if access.role == "old" and out is not None else self._piece(i, access)
                spans[access.role] = self._span(i, access, piece, timing)
                if access.write:
                    out, out_bytes = piece, piece.nbytes
                    if moved_by_data(i, "out"):
                        out.lines, out_bytes = self._reachable(i, out), self._gathered(i, access)
                    out.moves = self._moves(out.lines)
                    continue
                reads[access.role] = piece
                self._check_source(number, i, access, piece)
                hazard[access.role] = piece.lines
                if moved_by_data(i, access.role):
                    hazard[access.role] = self._reachable(i, piece)
                    read_bytes += self._gathered(i, access)
                else:
                    read_bytes += piece.nbytes
                piece.moves = self._moves(hazard[access.role])
        except OutsideError as error:
            raise self.error(number, i, f"it addresses {error}, outside the program's memory") from None
        if out is not None:
            self._check_result(number, i, out)
        return Prepared(
            number,
            i,
            TABLE[Op(i.opcode)],
            f"{TABLE[Op(i.opcode)].unit}[{i.unit}]",
            timing,
            reads,
            tuple(Check(piece, hazard[role], *spans[role], moved_by_data(i, role)) for role, piece in reads.items()),
            out,
            spans,
            read_bytes,
            out_bytes,
        )

    def _moves(self, lines: Lines) -> bool:
        """Whether lines move with the inference: those of the arena do, all others do not.

        ``OutsideError`` when only some of them do, or when they lie in the arena of another copy.
        """
        m, line_bytes = self.binary.memory, self.target.line_bytes
        low, high = (lines.start, lines.stop) if isinstance(lines, slice) else (int(lines[0]), int(lines[-1]) + 1)
        if m.copies == 1 or low == high:
            return False
        first, last = m.constants + m.state, m.total - m.scratch
        if first <= low * line_bytes and high * line_bytes <= first + m.arena:
            return True
        if high * line_bytes <= first or low * line_bytes >= last:
            return False
        raise OutsideError(f"lines {low} to {high - 1} across the borders of the arenas, or of another inference")

    def _check_source(self, number: int, i: Instruction, access: Access, piece: Piece) -> None:
        if not self.target.external.all_weights or i.opcode not in (Op.LOADW, Op.MATMUL) or access.role != "a":
            return
        lines = np.arange(piece.lines.start, piece.lines.stop) if isinstance(piece.lines, slice) else piece.lines
        if lines.size and int(lines[0]) * self.target.line_bytes < self.binary.memory.constants:
            raise self.error(number, i, "the planes of this processor take constants from external memory only")

    def _check_result(self, number: int, i: Instruction, out: Piece) -> None:
        first = out.lines.start if isinstance(out.lines, slice) else int(out.lines[0])
        if first * self.target.line_bytes < self.binary.memory.constants:
            raise self.error(number, i, "it writes into the constants")
        if not moved_by_data(i, "out") and out.form.repeats:
            raise self.error(number, i, "its result puts several values in one place")

    def _time(self, i: Instruction) -> Timing:
        key = _shape(i)
        found = self._timings.get(key)
        if found is None:
            found = self._timings[key] = time(self.target, self.binary, i)
        return found

    def _key(self, i: Instruction, access: Access) -> _Key:
        stream = self.binary.streams[access.stream]
        points = access.flow == POINTS
        return _Key(
            access.stream,
            i.g0 if stream.g0 else 0,
            access.rows if stream.g1 or points else (0, 1),
            access.inner if stream.g2 or points else (0, 1),
        )

    def _piece(self, i: Instruction, access: Access) -> Piece:
        stream, key = self.binary.streams[access.stream], self._key(i, access)
        gathered = moved_by_data(i, access.role)
        if not gathered and key in self._pieces:
            return self._pieces[key]
        limit = self.binary.memory.total
        piece = Piece(stream, key.g0, key.rows, key.inner, self.target.line_bytes, limit, self._forms)
        if not gathered:
            self._pieces[key] = piece
        return piece

    def _span(self, i: Instruction, access: Access, piece: Piece, timing: Timing) -> Span:
        """When the instruction first works on each line of an operand, and when it has done so for the last time."""
        delay = timing.latency if access.write else 0
        flow = access.flow
        if flow == WHOLE or (flow == ROWS and not piece.stream.g1):
            return delay, delay + timing.beats
        shape = (_shape(i), flow)
        speed = self._paces.get(shape)
        if speed is None:
            speed = self._paces[shape] = pace(self.target, self.binary, i, timing.beats, flow)
        if speed.items == 1:
            return delay, delay + timing.beats
        key = (piece.form, flow, delay, speed)
        found = self._spans.get(key)
        if found is None:
            first, last = piece.form.visits(flow)
            found = self._spans[key] = (speed.begin(first) + delay, speed.end(last) + delay)
        return found

    def _axes(self, i: Instruction) -> tuple[GatherAxis, ...]:
        return self.binary.gathers[i.gather - 1].axes

    def _gathered(self, i: Instruction, access: Access) -> int:
        """Bytes of a gather's elements: what data moves is taken anew at each point."""
        stream = fetched(self.binary, i, access)
        return taken(stream.g1, *access.rows) * taken(stream.g2, *access.inner) * stream.size

    def _reachable(self, i: Instruction, piece: Piece) -> Lines:
        """The lines of every address that an index could name; ``OutsideError`` when one lies outside memory."""
        first, second = offsets(piece.stream.g1, *piece.rows), offsets(piece.stream.g2, *piece.inner)
        begin = np.unique(first[:, None] + second) + piece.origin
        end = begin + piece.dtype.itemsize
        for axis in sorted(self._axes(i), key=lambda axis: abs(axis.stride)):
            begin, end = _joined(begin, end, piece.line_bytes)
            reach = (axis.extent - 1) * axis.stride
            if abs(axis.stride) <= piece.line_bytes:  # no line lies between two coordinates
                begin, end = begin + min(0, reach), end + max(0, reach)
            else:
                moved = np.arange(axis.extent, dtype=np.int64)[:, None] * axis.stride
                begin, end = (begin + moved).ravel(), (end + moved).ravel()
        begin, end = _joined(begin, end, piece.line_bytes)
        if begin[0] < 0 or end.max() > piece.limit:
            raise OutsideError(f"bytes {begin[0]} to {end.max()} of {piece.limit}")
        return marked(begin // piece.line_bytes, (end - 1) // piece.line_bytes)


def _joined(begin: Array, end: Array, gap: int) -> tuple[Array, Array]:
    """Runs of bytes in order, those less than ``gap`` apart as one: then no whole line lies between two."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    starts = np.flatnonzero(np.concatenate(([True], begin[1:] - end[:-1] >= gap)))
    ends = np.concatenate((starts[1:], [len(begin)])) - 1
    return begin[starts], end[ends]


def gathered_places(piece: Piece, axes: tuple[GatherAxis, ...], values: list[Array]) -> Array | str:
    """Byte address of each element of a piece that index values move, or what is wrong with them."""
    stream = piece.stream
    places = offsets(stream.g1, *piece.rows)[:, None] + offsets(stream.g2, *piece.inner) + piece.origin
    for axis, value in zip(axes, values, strict=True):
        small = (
            np.minimum(value, 1 << 62) if value.dtype == np.uint64 else value
        )  # what no int64 holds is outside anyway
        at = small.astype(np.int64) + axis.offset
        for nest, (start, count), shape, begin in (
            (stream.g0, (piece.g0, 1), (1, 1), 0),
            (stream.g1, piece.rows, (-1, 1), len(stream.g0)),
            (stream.g2, piece.inner, (1, -1), len(stream.g0) + len(stream.g1)),
        ):
            steps = axis.coefficients[begin : begin + len(nest)]
            if any(steps):
                moved = tuple(loop._replace(stride=c) for loop, c in zip(nest, steps, strict=True))
                at = at + offsets(moved, start, count).reshape(shape)
        at = np.where(at < 0, at + axis.extent, at)
        if ((at < 0) | (at >= axis.extent)).any():
            wrong = int(at[(at < 0) | (at >= axis.extent)][0])
            return f"index {wrong if wrong >= 0 else wrong - axis.extent} is outside a dimension of {axis.extent}"
        places = places + at * axis.stride
    return places
