"""On-chip memory with, for every line, when it may be read and when it may be overwritten."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.isa.binary import Binary
from compiler.simulator.forms import Array
from compiler.simulator.pieces import Lines, Piece

Cycles = Array | int  # one for all lines, or one for each

NEVER: Final = 1 << 62
_UNWRITTEN: Final = 0xFF  # not-a-number in every float, -1 in every integer: what nobody wrote shows in the result


class HazardError(Exception):
    """Why an access is refused; the caller adds cycle, unit and instruction."""


class Window:
    """Memory as the addresses of one inference see it: from the first byte on, or with the arena of copy ``number`` where
    addresses name the first.

    ``data``: bytes; ``shadow``: 255 where something was written. Per line: ``ready`` (the cycle from which it can be read)
    and ``read_end`` (the cycle until which issued instructions read it).
    """

    def __init__(self, memory: Memory, number: int) -> None:
        self.number = number
        self.constant_lines = memory.constant_lines
        line = number * memory.arena_lines
        at = line * memory.line_bytes
        self.data, self.shadow = memory.data[at:], memory.shadow[at // memory.grain :]
        self.ready, self.read_end = memory.ready[line:], memory.read_end[line:]

    def check_defined(self, piece: Piece) -> None:
        """Every byte must have been written by somebody, as constants have."""
        if isinstance(piece.lines, slice) and piece.lines.stop <= self.constant_lines:
            return
        if not piece.check_defined(self.shadow, self.number):
            raise HazardError("it reads memory that nothing has written")

    def check_read(self, lines: Lines, first: Cycles) -> None:
        """Every line must have arrived when it is first read."""
        ready = self.ready[lines]
        late = ready > first
        if late.any():
            latest = int(ready[late].max())
            if latest == NEVER:
                raise HazardError("it reads memory that nothing has written")
            raise HazardError(f"it reads data that arrives at cycle {latest}")

    def note_read(self, lines: Lines, end: Cycles) -> None:
        part = self.read_end[lines]
        if isinstance(lines, slice):
            np.maximum(part, end, out=part)
        else:
            self.read_end[lines] = np.maximum(part, end)

    def check_write(self, lines: Lines, begin: Cycles) -> None:
        """No line may still be read by an earlier instruction, or be on its way from one."""
        busy = self.read_end[lines]
        late = busy > begin
        if late.any():
            at = int(np.argmax(late))
            since = begin if isinstance(begin, int) else int(begin[at])
            raise HazardError(f"it writes at cycle {since} what is read until cycle {int(busy[at])}")
        ready = self.ready[lines]
        late = (ready > begin) & (ready != NEVER)
        if late.any():
            at = int(np.argmax(late))
            since = begin if isinstance(begin, int) else int(begin[at])
            raise HazardError(f"it writes at cycle {since} what another write completes at {int(ready[at])}")

    def note_write(self, piece: Piece, end: Cycles) -> None:
        self.ready[piece.lines] = end
        piece.mark_defined(self.shadow, self.number)


class Memory:
    """Bytes of one program's regions; ``windows``: by number of the copy, how an inference in it sees them.

    ``grain``: bytes that one element of ``shadow`` stands for; elements of a program that are all as large come and go whole.
    ``blank``: whether memory that nobody wrote holds a pattern of its own, which takes as long as writing all of it.
    ``loaded``: bytes put there before the first cycle, by kind, in whole lines.
    """

    def __init__(self, binary: Binary, line_bytes: int, grain: int = 1, *, blank: bool = True) -> None:
        regions = binary.memory
        self.line_bytes, self.grain = line_bytes, grain
        self.data: np.ndarray[Any, Any] = np.empty(regions.total, np.uint8)
        constants = np.frombuffer(binary.constants, np.uint8)
        self.data[: regions.constants] = constants
        if blank:
            self.data[regions.constants :] = _UNWRITTEN
        self.shadow: np.ndarray[Any, Any] = np.zeros(regions.total // grain, np.uint8)
        self.shadow[: regions.constants // grain] = 255
        filled: set[int] = set()
        for state in binary.states:
            place = slice(state.base, state.base + len(state.initial))
            filled.update(range(place.start // line_bytes, -(-place.stop // line_bytes)))
            self.data[place] = np.frombuffer(state.initial, np.uint8)
            self.shadow[place.start // grain : place.stop // grain] = 255
        self.loaded = {"constants": constants.nbytes, "state": len(filled) * line_bytes}
        self.constant_lines = regions.constants // line_bytes
        lines = regions.total // line_bytes
        persistent = (regions.constants + regions.state) // line_bytes
        self.persistent_lines = persistent
        self.arena_lines = regions.arena // line_bytes
        self.scratch_line = persistent + regions.activations // line_bytes
        self.ready: np.ndarray[Any, Any] = np.full(lines, NEVER, np.int64)
        self.ready[:persistent] = 0
        self.read_end: np.ndarray[Any, Any] = np.zeros(lines, np.int64)
        self.windows = [Window(self, number) for number in range(regions.copies)]
        self.top = {"activations": 0, "scratch": 0}

    def note_touched(self, piece: Piece) -> None:
        """Remember how far each region is used (once per piece)."""
        lines = piece.lines
        if isinstance(lines, slice):
            if lines.start < lines.stop:
                self._note("activations", lines.start, min(lines.stop, self.scratch_line), self.persistent_lines)
                self._note("scratch", lines.start, lines.stop, self.scratch_line)
            return
        below = lines[lines < self.scratch_line]
        if below.size:
            self._note("activations", int(below[0]), int(below[-1]) + 1, self.persistent_lines)
        self._note("scratch", int(lines[0]), int(lines[-1]) + 1, self.scratch_line)

    def note_range(self, low: Array, high: Array) -> None:
        """``note_touched`` for many pieces: lines from ``low`` to ``high``, exclusive, of each."""
        for name, border, stop in (
            ("activations", self.persistent_lines, np.minimum(high, self.scratch_line)),
            ("scratch", self.scratch_line, high),
        ):
            used = stop[stop > np.maximum(low, border)]
            if used.size:
                self.top[name] = max(self.top[name], int(used.max()) - border)

    def _note(self, name: str, start: int, stop: int, low: int) -> None:
        """Lines from ``start`` to ``stop``, exclusive, in the region that begins at ``low``."""
        if stop > max(start, low) and stop - low > self.top[name]:
            self.top[name] = stop - low
