"""A tile: one instruction without its start cycle, and what it must wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.isa.table import TABLE, accesses, time

if TYPE_CHECKING:
    from compiler.isa.instruction import Instruction
    from compiler.schedule.space import Space

EMPTY = np.empty(0, np.int64)


@dataclass(slots=True)
class Tile:
    """``unit``: class and instance. ``reads``/``writes``: lines of the unbounded space.

    ``inputs``: values read; ``output``: the value written. ``chain``: number of the weight tile that a MATMUL uses or a
    LOADW fills on its plane (-1: none, or not yet given to a plane). ``behind``: tiles whose results must be complete,
    though it reads none of them.
    """

    instruction: Instruction
    unit: tuple[str, int]
    beats: int
    latency: int
    reads: np.ndarray[Any, Any]
    writes: np.ndarray[Any, Any]
    output: str = ""
    inputs: tuple[tuple[str, np.ndarray[Any, Any]], ...] = ()
    after: list[int] = field(default_factory=list)
    chain: int = -1
    behind: tuple[int, ...] = ()


def make(
    space: Space,
    instruction: Instruction,
    inputs: dict[str, str],
    output: str = "",
) -> Tile:
    """The tile of an instruction. ``inputs``: operand field (or ``index0`` ...) -> the value that it reads."""
    spec = TABLE[instruction.opcode]  # type: ignore[index]
    timing = time(space.machine, space.pool, instruction)
    reads: list[np.ndarray[Any, Any]] = []
    named: list[tuple[str, np.ndarray[Any, Any]]] = []
    writes = EMPTY
    for a in accesses(space.pool, instruction):
        lines = space.touched(a.stream + 1, ((instruction.g0, 1), a.rows, a.inner))
        if a.write:
            writes = lines
        elif len(lines):
            reads.append(lines)
            named.append((inputs[a.role], lines))
    merged = EMPTY if not reads else reads[0] if len(reads) == 1 else np.unique(np.concatenate(reads))
    unit = (spec.unit, instruction.unit)
    return Tile(instruction, unit, timing.beats, timing.latency, merged, writes, output, tuple(named))
