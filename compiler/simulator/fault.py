"""The refusal that turns a schedule into a proven one."""

from __future__ import annotations

from compiler.errors import ModelError


class SimulationError(ModelError):
    """A program that a processor must not run. ``cycle``, ``unit`` ("matrix[0]"), ``instruction`` (its position) and
    ``source`` (the operation it comes from) say where."""

    def __init__(self, reason: str, *, cycle: int, unit: str, instruction: int, source: str) -> None:
        where = f"cycle {cycle}, {unit}, instruction {instruction}"
        super().__init__(f"{where}: {reason}", node=source)
        self.reason = reason
        self.cycle = cycle
        self.unit = unit
        self.instruction = instruction
        self.source = source
