"""What one instruction counts for, from its fields alone: the compiler's side of the counters.

The simulator does not use this module: it counts the arrays that it touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from compiler.isa.geometry import elements
from compiler.isa.instruction import Flag, Instruction, Op
from compiler.isa.machine import Machine
from compiler.isa.paths import branches, dearest
from compiler.isa.program import Program
from compiler.isa.table import accesses, fetched
from compiler.isa.tables import Tables, program_of, stream_of
from compiler.isa.timing import ceil_div, lanes, sort_stages, tree_depth, vector_passes, widest
from compiler.isa.timings import Timings

_LAST, _EXTRA = int(Flag.LAST), int(Flag.EXTRA)  # plain numbers: instructions are many


@dataclass(frozen=True)
class Counts:
    """``operations``: billed. ``executed``: arithmetic slots used, padding included. Bytes for the rest."""

    operations: int = 0
    executed: int = 0
    alu: int = 0
    mac_8: int = 0
    mac_16: int = 0
    mac_32: int = 0
    read: int = 0
    written: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    external_in: int = 0

    @staticmethod
    def total(parts: Iterable[Counts]) -> Counts:
        rows = list(parts)
        kept = {id(row): row for row in rows}  # instructions that are alike share one
        times = Counter(map(id, rows))
        return Counts(
            *(sum(times[n] * getattr(row, field.name) for n, row in kept.items()) for field in fields(Counts))
        )

    def energy_fj(self, energy: dict[str, int], cycles: int) -> int:
        """Femtojoules, from a processor's table of energy per action and the cycles that it was on."""
        actions = {
            "alu": self.alu,
            "mac_8": self.mac_8,
            "mac_16": self.mac_16,
            "mac_32": self.mac_32,
            "read_byte": self.read,
            "write_byte": self.written,
            "link_byte": self.bytes_in + self.bytes_out,
            "external_byte": self.external_in,
            "cycle": cycles,
        }
        return sum(energy[name] * count for name, count in actions.items())


def _arithmetic(program: Program | None) -> int:
    return program.arithmetic if program else 0


def _matmul(machine: Machine, tables: Tables, i: Instruction) -> Counts:
    stream = stream_of(tables, i.a)
    assert stream is not None
    rows, columns = machine.matrix.tiles[stream.dtype]
    macs = i.count1 * (i.offset or i.count2 * i.count3 // max(1, i.blocks))
    post = _arithmetic(program_of(tables, i.post)) if i.flags & _LAST else 0
    alu = i.count1 * i.count3 * post
    return Counts(
        operations=0 if i.flags & _EXTRA else 2 * macs + alu,
        executed=i.count1 * (2 * rows * columns + columns * post),
        alu=alu,
        **{f"mac_{8 * stream.size}": macs},
    )


def _vector(machine: Machine, tables: Tables, i: Instruction) -> Counts:
    pre = _arithmetic(program_of(tables, i.pre)) + (1 if i.reducer else 0)
    post = _arithmetic(program_of(tables, i.post))
    width = lanes(machine, widest(tables, i))
    points = i.count1 * i.count2
    alu = points * pre + i.count1 * post
    executed = width * (vector_passes(i, width) * pre + ceil_div(i.count1, width) * post)
    return Counts(operations=0 if i.flags & _EXTRA else alu, executed=executed, alu=alu)


def _ordered(machine: Machine, tables: Tables, i: Instruction) -> Counts:
    """A combination per scattered element; per element sorted one operation, however many exchanges it takes."""
    points = i.count1 * i.count2
    if i.opcode == Op.SCATTER:
        alu = points if i.reducer else 0
        return Counts(operations=alu, executed=alu, alu=alu)
    stream = stream_of(tables, i.a)
    assert stream is not None
    slots = ceil_div(i.count1 << tree_depth(i.count2), lanes(machine, stream.size)) * lanes(machine, stream.size)
    alu = slots * sort_stages(i.count2)
    return Counts(operations=0 if i.flags & _EXTRA else points, executed=alu, alu=alu)


def counts(machine: Machine, tables: Tables, i: Instruction) -> Counts:
    """Counts of one instruction of a valid program."""
    arithmetic = Counts()
    if i.opcode == Op.MATMUL:
        arithmetic = _matmul(machine, tables, i)
    elif i.opcode == Op.VECTOR:
        arithmetic = _vector(machine, tables, i)
    elif i.opcode in (Op.SCATTER, Op.SORT):
        arithmetic = _ordered(machine, tables, i)
    moved = {"read": 0, "written": 0}
    for access in accesses(tables, i):
        stream = fetched(tables, i, access)
        moved["written" if access.write else "read"] += elements(stream, access.rows, access.inner) * stream.size
    link = {}
    if i.opcode == Op.RECV:
        link["bytes_in"] = i.count1 * i.count2 * tables.streams[i.out - 1].size
    if i.opcode == Op.SEND:
        link["bytes_out"] = i.count1 * i.count2 * tables.streams[i.a - 1].size
    if i.opcode == Op.FETCH:
        link["external_in"] = i.count1 * i.count2 * tables.streams[i.out - 1].size
    return Counts.total([arithmetic, Counts(**moved, **link)])


def dearest_counts(machine: Machine, tables: Tables, rows: Sequence[Instruction]) -> list[Counts]:
    """Counts of every instruction of a program. With branches each quantity is counted on the way where it is largest and
    is 0 elsewhere, so that sums are what no run exceeds."""
    timings, known = Timings(machine, tables), dict[tuple[object, ...], Counts]()

    def counted(i: Instruction) -> Counts:
        if i.gather:
            return counts(machine, tables, i)
        key = (timings.alike(i), i.offset if i.opcode == Op.MATMUL else 0)
        if key not in known:
            known[key] = counts(machine, tables, i)
        return known[key]

    found = [counted(i) for i in rows]
    if not branches(rows):
        return found
    for field in fields(Counts):
        kept = set(dearest(rows, [getattr(c, field.name) for c in found])[1])
        found = [c if n in kept else replace(c, **{field.name: 0}) for n, c in enumerate(found)]
    return found
