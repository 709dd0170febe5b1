"""A compiled program and its face: resources, schedule, rows, bounds, bytes."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import Any

from compiler import reporting, targets
from compiler.isa.assembly import disassemble
from compiler.isa.binary import Binary
from compiler.isa.resources import Resources
from compiler.reporting.timeline import Scheduled
from compiler.reporting.whole import bounds_of, memory_map
from compiler.targets import Target


class Program:
    """One exact program for one processor version. Equal when its bytes are; everything shown is computed from them."""

    def __init__(self, binary: Binary, target: str | Target | None = None) -> None:
        """``target``: the processor (its description, file or name); without it, it is found by its digest or name."""
        self.binary = binary
        self._given = target

    @cached_property
    def target(self) -> Target:
        """The processor version that it was compiled for. ``ModelError`` when it cannot be found."""
        return targets.find(self.binary.target, self.binary.target_digest, self._given)

    @cached_property
    def resources(self) -> Resources:
        """Counts of one inference; equal to the simulator's counters when exact."""
        return reporting.resources_of(self.binary, self.target)

    @cached_property
    def schedule(self) -> list[Scheduled]:
        """Every instruction: unit, start cycle, duration."""
        return reporting.scheduled(self.binary, self.target)

    @cached_property
    def per_operation(self) -> list[dict[str, Any]]:
        """Rows by operation; every column of ``reporting.COLUMNS`` sums to the program's total."""
        return reporting.per_operation(self.binary, self.target)

    @property
    def bounds(self) -> dict[str, Any]:
        """Latency, interval and memory: ours, the proven bound, their ratio, and what limits."""
        return bounds_of(self.binary)

    @property
    def memory_map(self) -> list[dict[str, Any]]:
        """Buffers with address, size, first and last cycle."""
        return memory_map(self.binary)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return self.binary.digest

    @property
    def dims(self) -> dict[str, int]:
        """Dimensions bound when the model was loaded."""
        return dict(reporting.notes.notes_of(self.binary.notes, len(self.binary.sources)).get("dims", {}))

    def report(self) -> dict[str, Any]:
        """Everything that is shown of it as plain data: headline, resources, rows by operation, timeline, memory, bounds."""
        return reporting.report(self.binary, self.target)

    def chrome_trace(self) -> dict[str, Any]:
        """The schedule as trace events, for viewers such as Perfetto; one microsecond there is one cycle."""
        return reporting.chrome_trace(self.binary, self.target)

    def disassemble(self) -> str:
        """The instructions as text, one on a line."""
        return disassemble(self.binary)

    def to_bytes(self) -> bytes:
        """The program as a file holds it; ``from_bytes`` reads it back."""
        return self.binary.to_bytes()

    def write(self, path: str | PathLike[str]) -> None:
        """Put the bytes in a file; those of a large model are never in memory a second time."""
        self.binary.write(path)

    @staticmethod
    def from_bytes(data: bytes | memoryview, target: str | Target | None = None) -> Program:
        """The program in ``data``; ``ModelError`` when it is none."""
        return Program(Binary.from_bytes(data), target)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.binary == other.binary

    def __hash__(self) -> int:
        return hash(self.binary)
