"""What the instruction table's formulas need to know of a processor. ``compiler.targets`` fills it from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

UNIT_CLASSES = ("link_in", "weights", "matrix", "vector", "move", "link_out")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A class of equal units.

    ``instances``: how many. ``latency``: cycles from issue to the first byte written. ``ports``: memory lines per cycle
    for each operand stream (``a`` ``b`` ``c`` ``d`` ``index``: read, ``out``: written). ``tile``: most elements of one
    instruction, or most bytes for a link (0: the unit has a limit of its own kind).
    """

    instances: int
    latency: int
    ports: Mapping[str, int]
    tile: int = 0


@dataclass(frozen=True, kw_only=True)
class WeightsUnit(Unit):
    """The port through which a plane's weight slots are filled."""

    bytes_per_cycle: int


@dataclass(frozen=True, kw_only=True)
class MatrixUnit(Unit):
    """A matrix plane. ``tiles``: element type -> (rows K, columns N) of the array it forms."""

    tiles: Mapping[str, tuple[int, int]]
    slots: int
    accumulator_rows: int
    alus: int


@dataclass(frozen=True, kw_only=True)
class VectorUnit(Unit):
    """``lanes`` elements per cycle (of at most 4 bytes; half as many of 8), each through ``alus`` operations."""

    lanes: int
    alus: int


@dataclass(frozen=True, kw_only=True)
class LinkUnit(Unit):
    bytes_per_cycle: int


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Sizes, rates and latencies of one processor version. ``energy``: femtojoules per action."""

    clock_hz: int
    memory_bytes: int
    line_bytes: int
    read_ports: int
    write_ports: int
    passes: Mapping[str, int]  # operations of one scalar operator in an arithmetic unit, 1 unless stated
    energy: Mapping[str, int]
    weights: WeightsUnit
    matrix: MatrixUnit
    vector: VectorUnit
    move: Unit
    link_in: LinkUnit
    link_out: LinkUnit

    def unit(self, name: str) -> Unit:
        """The unit class of that name (one of ``UNIT_CLASSES``)."""
        found = getattr(self, name)
        assert isinstance(found, Unit)
        return found

    def lines(self, size: int) -> int:
        """Whole lines that hold ``size`` bytes."""
        return -(-size // self.line_bytes)
