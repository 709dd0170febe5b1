"""Cycles: how long each instruction keeps its unit busy, as integer formulas of operands and processor.

An instruction issued at cycle s reads memory during [s, s + beats), begins to write at s + latency, and everything it
writes can be read from s + latency + beats. Its unit takes the next instruction at s + beats. When it touches which line in
that time is said in ``compiler.isa.flow``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from compiler.isa.element import SIZE
from compiler.isa.instruction import Flag, Instruction
from compiler.isa.machine import Machine
from compiler.isa.program import FREE, Program
from compiler.isa.tables import Tables, program_of, stream_of
from compiler.numerics.reduce import REDUCER_CODES

CHAIN = REDUCER_CODES["chain"]
_LAST = int(Flag.LAST)  # a plain number: instructions are many


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


class Operation(Protocol):
    """A step of an expression: a scalar operator by name."""

    @property
    def op(self) -> str: ...


def passes(steps: Iterable[Operation], table: Mapping[str, int]) -> int:
    """Arithmetic-unit operations that one element needs for all ``steps``; ``table``: those of an operator, 1 unless it says."""
    return sum(table.get(step.op, 1) for step in steps if step.op not in FREE)


def _passes(machine: Machine, program: Program | None) -> int:
    return passes(program.steps if program else (), machine.passes)


def tree_depth(points: int) -> int:
    """Levels of the fixed reduction tree over that many points."""
    return max(points - 1, 0).bit_length()


def widest(tables: Tables, i: Instruction) -> int:
    """Bytes of the largest element that passes a vector instruction's lanes."""
    streams = (stream_of(tables, reference) for reference in (i.a, i.b, i.c, i.d, i.out))
    sizes = [s.size for s in streams if s is not None]
    for program in (program_of(tables, i.pre), program_of(tables, i.post)):
        sizes += [SIZE[step.dtype] for step in program.steps] if program else []
    return max(sizes)


def lanes(machine: Machine, size: int) -> int:
    """Elements of that size per cycle: wide ones take two lanes."""
    return machine.vector.lanes if size <= 4 else machine.vector.lanes // 2


def loadw_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    stream = stream_of(tables, i.a)
    assert stream is not None
    return ceil_div(i.count1 * i.count2 * stream.size, machine.weights.bytes_per_cycle)


def matmul_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    steps = _passes(machine, program_of(tables, i.post)) if i.flags & _LAST else 0
    return i.count1 * max(1, ceil_div(steps, machine.matrix.alus))


def vector_passes(i: Instruction, width: int) -> int:
    """Times that the lanes are filled: elements packed densely, but a chain keeps each result in a lane of its own."""
    if i.reducer == CHAIN:
        return ceil_div(i.count1, width) * i.count2
    return ceil_div(i.count1 * i.count2, width)


def vector_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    width = lanes(machine, widest(tables, i))
    pre = _passes(machine, program_of(tables, i.pre)) + (1 if i.reducer else 0)
    post = _passes(machine, program_of(tables, i.post))
    body = vector_passes(i, width) * max(1, ceil_div(pre, machine.vector.alus))
    return body + ceil_div(i.count1, width) * ceil_div(post, machine.vector.alus)


def vector_latency(machine: Machine, tables: Tables, i: Instruction) -> int:
    return machine.vector.latency + (tree_depth(i.count2) if i.reducer and i.reducer != CHAIN else 0)


def vector_group(machine: Machine, tables: Tables, i: Instruction) -> int:
    """Points that fill the lanes once."""
    width = lanes(machine, widest(tables, i))
    return max(1, width // i.count2) if i.reducer and i.reducer != CHAIN else width


def alone(machine: Machine, tables: Tables, i: Instruction) -> int:
    """Every row (or point) for itself."""
    return 1


def one_beat(machine: Machine, tables: Tables, i: Instruction) -> int:
    """Only the ports limit it."""
    return 1


def scatter_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    """An element per cycle when each may need the result of the one before; else only the ports limit it."""
    return i.count1 * i.count2 if i.reducer else 1


def sort_run(machine: Machine) -> int:
    """Most numbers that the network orders at once: a power of two that eight registers of every lane hold."""
    return 1 << (8 * machine.vector.lanes).bit_length() - 1


def sort_stages(points: int) -> int:
    """Passes of a bitonic network over that many points."""
    depth = tree_depth(points)
    return depth * (depth + 1) // 2


def sort_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    stream = stream_of(tables, i.a)
    assert stream is not None
    padded = i.count1 << tree_depth(i.count2)
    return max(1, ceil_div(padded, lanes(machine, stream.size)) * sort_stages(i.count2))


def recv_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    return _link_beats(tables, i, i.out, machine.link_in.bytes_per_cycle)


def send_beats(machine: Machine, tables: Tables, i: Instruction) -> int:
    return _link_beats(tables, i, i.a, machine.link_out.bytes_per_cycle)


def fetch_cycles(machine: Machine, tables: Tables, i: Instruction) -> int:
    return _link_beats(tables, i, i.out, machine.external.bytes_per_cycle)


def _link_beats(tables: Tables, i: Instruction, reference: int, rate: int) -> int:
    stream = stream_of(tables, reference)
    assert stream is not None
    return ceil_div(i.count1 * i.count2 * stream.size, rate)


def fetch_beats(touches: Iterable[tuple[int, int]]) -> int:
    """Cycles that the slowest stream needs, from (line touches, ports) of each."""
    return max((ceil_div(count, ports) for count, ports in touches), default=1)
