"""The instruction set: one table of instructions, their encoding, and the container that holds a program.

The words in which other rooms speak of instructions are imported from here: operations, streams, scalar programs, the table,
and what its formulas know of a processor. The container, the cycles and the order of touches have modules of their own.
"""

from compiler.isa.element import NAME, NUMPY, SIZE, SUMS
from compiler.isa.instruction import INSTRUCTION_DTYPE, REDUCERS, Flag, Instruction, Op, pack
from compiler.isa.machine import (
    NO_EXTERNAL,
    UNIT_CLASSES,
    ExternalUnit,
    LinkUnit,
    Machine,
    MatrixUnit,
    Unit,
    VectorUnit,
    WeightsUnit,
)
from compiler.isa.program import Program, Step
from compiler.isa.stream import Gather, GatherAxis, Guard, Loop, Nest, Stream, points
from compiler.isa.table import TABLE, Access, Spec, Timing, accesses, fetched, moved_by_data, pace, time, unit_class
from compiler.isa.tables import Pool, Port, program_of

__all__ = [
    "INSTRUCTION_DTYPE",
    "NAME",
    "NO_EXTERNAL",
    "NUMPY",
    "REDUCERS",
    "SIZE",
    "SUMS",
    "TABLE",
    "UNIT_CLASSES",
    "Access",
    "ExternalUnit",
    "Flag",
    "Gather",
    "GatherAxis",
    "Guard",
    "Instruction",
    "LinkUnit",
    "Loop",
    "Machine",
    "MatrixUnit",
    "Nest",
    "Op",
    "Pool",
    "Port",
    "Program",
    "Spec",
    "Step",
    "Stream",
    "Timing",
    "Unit",
    "VectorUnit",
    "WeightsUnit",
    "accesses",
    "fetched",
    "moved_by_data",
    "pace",
    "pack",
    "points",
    "program_of",
    "time",
    "unit_class",
]
