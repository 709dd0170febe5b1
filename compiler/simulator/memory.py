"""On-chip memory with, for every line, when it may be read and when it may be overwritten."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.isa.binary import Binary
from compiler.simulator.pieces import Lines, Piece

NEVER: Final = 1 << 62
_UNWRITTEN: Final = 0xFF  # not-a-number in every float, -1 in every integer: what nobody wrote shows in the result


class HazardError(Exception):
    """Why an access is refused; the caller adds cycle, unit and instruction."""


class Memory:
    """Bytes of one program's regions, and per line: ``ready`` (the cycle from which it can be read) and ``read_end`` (the
    cycle until which issued instructions read it)."""

    def __init__(self, binary: Binary, line_bytes: int) -> None:
        regions = binary.memory
        self.line_bytes = line_bytes
        self.limit = regions.total
        self.data: np.ndarray[Any, Any] = np.full(regions.total, _UNWRITTEN, np.uint8)
        self.data[: regions.constants] = np.frombuffer(binary.constants, np.uint8)
        self.shadow: np.ndarray[Any, Any] = np.zeros(regions.total, np.uint8)  # 255 where something was written
        self.shadow[: regions.constants] = 255
        for state in binary.states:
            place = slice(state.base, state.base + len(state.initial))
            self.data[place] = np.frombuffer(state.initial, np.uint8)
            self.shadow[place] = 255
        lines = regions.total // line_bytes
        self.constant_lines = regions.constants // line_bytes
        persistent = self.constant_lines + regions.state // line_bytes
        self.persistent_lines = persistent
        self.scratch_line = persistent + regions.activations // line_bytes
        self.ready: np.ndarray[Any, Any] = np.full(lines, NEVER, np.int64)
        self.ready[:persistent] = 0
        self.read_end: np.ndarray[Any, Any] = np.zeros(lines, np.int64)
        self.top = {"activations": 0, "scratch": 0}

    def check_defined(self, piece: Piece) -> None:
        """Every byte must have been written by somebody."""
        if not piece.check_defined(self.shadow):
            raise HazardError("it reads memory that nothing has written")

    def check_read(self, lines: Lines, cycle: int) -> None:
        """Every line must have arrived."""
        ready = self.ready[lines]
        latest = int(ready.max()) if ready.size else 0
        if latest > cycle:
            if latest == NEVER:
                raise HazardError("it reads memory that nothing has written")
            raise HazardError(f"it reads data that arrives at cycle {latest}")

    def note_read(self, lines: Lines, end: int) -> None:
        part = self.read_end[lines]
        self.read_end[lines] = np.maximum(part, end)

    def check_write(self, lines: Lines, begin: int) -> None:
        """No line may still be read by an earlier instruction, or be on its way from one."""
        busy = self.read_end[lines]
        if busy.size and int(busy.max()) > begin:
            raise HazardError(f"it writes at cycle {begin} what is read until cycle {int(busy.max())}")
        ready = self.ready[lines]
        if ready.size and int(ready.max()) > begin:
            pending = ready[ready != NEVER]
            if pending.size and int(pending.max()) > begin:
                raise HazardError(f"it writes at cycle {begin} what another write completes at {int(pending.max())}")

    def note_write(self, piece: Piece, end: int) -> None:
        self.ready[piece.lines] = end
        piece.mark_defined(self.shadow)

    def note_touched(self, piece: Piece) -> None:
        """Remember how far each region is used (once per piece)."""
        lines = piece.lines
        used = np.arange(lines.start, lines.stop) if isinstance(lines, slice) else lines
        for name, low, high in (
            ("activations", self.persistent_lines, self.scratch_line),
            ("scratch", self.scratch_line, len(self.ready)),
        ):
            inside = used[(used >= low) & (used < high)]
            if inside.size:
                self.top[name] = max(self.top[name], int(inside[-1]) + 1 - low)
