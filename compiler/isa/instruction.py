"""The instruction word: its fields with their bit ranges, as one NumPy record.

All instructions share one word; which fields an instruction uses stands in ``compiler.isa.table``, and the others are 0.
References to tables (streams, programs, gathers, ports) are 1 + position; 0 means none.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, IntFlag
from typing import Any, Final, NamedTuple

import numpy as np

from compiler.numerics.reduce import REDUCER_CODES

REDUCERS: Final[dict[int, str]] = {code: name for name, code in REDUCER_CODES.items()}


class Op(IntEnum):
    """Operation codes; 0 is not an instruction."""

    LOADW = 1
    MATMUL = 2
    VECTOR = 3
    MOVE = 4
    GATHER = 5
    RECV = 6
    SEND = 7
    SCATTER = 8
    SORT = 9
    FETCH = 12
    BRANCH = 13


class Flag(IntFlag):
    """``FIRST``: accumulators start at 0. ``LAST``: the accumulated rows leave the plane. ``EXTRA``: the work repeats or
    completes work already counted (a recomputed border, partial sums), so it is executed but not billed. ``UNLESS``: a
    branch skips when its condition is true."""

    FIRST = 1
    LAST = 2
    EXTRA = 4
    UNLESS = 8


class Field(NamedTuple):
    name: str
    bits: int
    text: str


FIELDS: Final = (
    Field("opcode", 8, "which instruction"),
    Field("unit", 8, "instance of the unit's class"),
    Field("slot", 8, "weight slot of the plane"),
    Field("flags", 8, "1 first, 2 last, 4 extra, 8 unless"),
    Field("cycle", 32, "issue cycle"),
    Field("source", 32, "position in the table of source operations"),
    Field("row", 32, "first accumulator row"),
    Field("a", 32, "stream of operand 0"),
    Field("b", 32, "stream of operand 1"),
    Field("c", 32, "stream of operand 2"),
    Field("d", 32, "stream of operand 3"),
    Field("out", 32, "stream of the result"),
    Field("pre", 32, "program for every element"),
    Field("post", 32, "program after the accumulation or reduction"),
    Field("gather", 32, "table of gathered dimensions"),
    Field("port", 16, "host tensor"),
    Field("reducer", 8, ", ".join(f"{code} {name}" for code, name in REDUCERS.items())),
    Field("blocks", 8, "diagonal blocks of the weights, 0 for one tile"),
    Field("g0", 32, "point of the batch loops"),
    Field("start1", 32, "first point of the rows"),
    Field("count1", 32, "number of rows"),
    Field("start2", 32, "first point of the inner loops"),
    Field("count2", 32, "number of inner points"),
    Field("start3", 32, "first point of the result's inner loops; of a branch: cycles that it skips"),
    Field("count3", 32, "number of the result's inner points; of a branch: instructions that it skips"),
    Field(
        "offset", 64, "byte offset in the host tensor, or in external memory; of weights in bands: cells that are on"
    ),
)

INSTRUCTION_DTYPE: Final[np.dtype[Any]] = np.dtype([(field.name, f"<u{field.bits // 8}") for field in FIELDS])


def bit_range(name: str) -> tuple[int, int]:
    """First and last bit of a field in the little-endian instruction word."""
    low = 0
    for field in FIELDS:
        if field.name == name:
            return low, low + field.bits - 1
        low += field.bits
    raise KeyError(name)


class Instruction(NamedTuple):
    """One instruction, in the order of ``FIELDS``; ``Instruction(*row)`` reads a row of ``array.tolist()``."""

    opcode: int = 0
    unit: int = 0
    slot: int = 0
    flags: int = 0
    cycle: int = 0
    source: int = 0
    row: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    out: int = 0
    pre: int = 0
    post: int = 0
    gather: int = 0
    port: int = 0
    reducer: int = 0
    blocks: int = 0
    g0: int = 0
    start1: int = 0
    count1: int = 0
    start2: int = 0
    count2: int = 0
    start3: int = 0
    count3: int = 0
    offset: int = 0

    def on(self, unit: int, slot: int, row: int) -> Instruction:
        """The same instruction on a unit, with its slot and accumulator rows there (quicker than ``_replace``)."""
        return Instruction._make((self[0], unit, slot, *self[3:6], row, *self[7:]))

    def rows(self, row: int, start: int, count: int) -> Instruction:
        """The same product of other rows, with their first accumulator row."""
        return Instruction._make((*self[:6], row, *self[7:19], start, count, *self[21:]))


def pack(instructions: Iterable[Instruction]) -> np.ndarray[Any, Any]:
    """Instructions as an array of ``INSTRUCTION_DTYPE``."""
    return np.array(list(instructions), dtype=INSTRUCTION_DTYPE)


def unpack(records: np.ndarray[Any, Any]) -> list[Instruction]:
    return [Instruction(*row) for row in records.tolist()]
