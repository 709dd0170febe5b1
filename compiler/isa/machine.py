"""What the instruction table's formulas need to know of a processor. ``compiler.targets`` fills it from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNIT_CLASSES = ("link_in", "external", "weights", "matrix", "vector", "move", "link_out", "control")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A class of equal units.

    ``instances``: how many; 0 where a processor has none. ``latency``: cycles from issue to the first byte written.
    ``ports``: memory lines per cycle for each operand stream (``a`` ``b`` ``c`` ``d`` ``index``: read, ``out``: written).
    ``tile``: most elements of one instruction, or most bytes for a link (0: the unit has a limit of its own kind).
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
class ExternalUnit(Unit):
    """The port to external memory of ``capacity`` bytes, read only.

    ``ahead``: bytes that may be fetched before the turn of their reader comes (the depth of a queue of weights).
    ``all_weights``: constants that planes multiply with come from there, even such as would fit on the chip.
    ``instructions``: the control unit streams its instructions over wires of its own: they take no on-chip memory.
    """

    capacity: int
    bytes_per_cycle: int
    ahead: int = 0
    all_weights: bool = False
    instructions: bool = False


NO_EXTERNAL = ExternalUnit(instances=0, latency=0, ports={}, capacity=0, bytes_per_cycle=1)

NO_CONTROL = Unit(instances=0, latency=0, ports={"a": 1})


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Sizes, rates and latencies of one processor version. ``energy``: femtojoules per action. ``copies``: arenas that
    inferences may take in turn.

    A processor without planes has no ``matrix.tiles`` and 0 instances of ``matrix`` and ``weights``; one without external
    memory has ``NO_EXTERNAL``, one that cannot branch ``NO_CONTROL``.
    """

    clock_hz: int
    memory_bytes: int
    line_bytes: int
    read_ports: int
    write_ports: int
    copies: int = 1
    passes: Mapping[str, int]  # operations of one scalar operator in an arithmetic unit, 1 unless stated
    energy: Mapping[str, int]
    weights: WeightsUnit
    matrix: MatrixUnit
    vector: VectorUnit
    move: Unit
    link_in: LinkUnit
    link_out: LinkUnit
    external: ExternalUnit = field(default=NO_EXTERNAL)
    control: Unit = field(default=NO_CONTROL)  # what decides branches

    def unit(self, name: str) -> Unit:
        """The unit class of that name (one of ``UNIT_CLASSES``)."""
        found = getattr(self, name)
        assert isinstance(found, Unit)
        return found

    def lines(self, size: int) -> int:
        """Whole lines that hold ``size`` bytes."""
        return -(-size // self.line_bytes)

    def on_chip(self, regions: int, instructions: int) -> int:
        """Bytes of on-chip memory that a program takes: its regions, and its instructions unless they are streamed."""
        return regions + (0 if self.external.instructions else instructions)
