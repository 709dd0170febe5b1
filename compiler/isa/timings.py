"""Cycles of instructions, worked out once for all tiles of one operation, and for all operations that do the same.

Line touches depend on where a range begins only through the loops that it cuts: tiles that begin at the same point of a
row take the same time. They do not depend on addresses: streams that differ in those alone are one *form*.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, lcm

from compiler.isa.geometry import simplify
from compiler.isa.instruction import Instruction, Op
from compiler.isa.machine import Machine
from compiler.isa.stream import Nest, Stream, points
from compiler.isa.table import TABLE, Timing, time
from compiler.isa.tables import Tables

Periods = tuple[int, int, int, int]  # by number of a range; the first is of operands that no range selects


class Timings:
    """``time`` of instructions over one set of tables, remembered."""

    def __init__(self, machine: Machine, tables: Tables) -> None:
        self._machine, self._tables = machine, tables
        self._forms: dict[Stream, int] = {}  # number of each form, by its stream at address 0
        self._form: dict[int, int] = {0: 0}  # by reference
        self._kinds: dict[tuple[int, ...], tuple[tuple[int, ...], Periods]] = {}
        self._found: dict[tuple[int, ...], Timing] = {}

    def of(self, i: Instruction) -> Timing:
        """What ``compiler.isa.table.time`` says of the instruction."""
        if i.gather:  # data says where it goes
            return time(self._machine, self._tables, i)
        key = self.alike(i)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = time(self._machine, self._tables, i)
        return found

    def alike(self, i: Instruction) -> tuple[int, ...]:
        """Equal for instructions that take the same time and touch as many elements, unless data says where they go."""
        given = (i.opcode, i.a, i.b, i.c, i.d, i.out)
        known = self._kinds.get(given)
        if known is None:
            kind = (i.opcode, *(self.form(reference) for reference in given[1:]))
            known = self._kinds[given] = kind, self.repeats(i)
        kind, periods = known
        return (
            *kind,
            i.flags,
            i.pre,
            i.post,
            i.reducer,
            i.blocks,
            i.count1,
            i.count2,
            i.count3,
            i.start1 % periods[1],
            i.start2 % periods[2],
            i.start3 % periods[3],
        )

    def form(self, reference: int) -> int:
        """A number that is equal for streams with the same elements at other addresses; 0 for none."""
        found = self._form.get(reference)
        if found is None:
            stream = replace(self._tables.streams[reference - 1], base=0)
            found = self._form[reference] = self._forms.setdefault(stream, len(self._forms) + 1)
        return found

    def repeats(self, i: Instruction) -> Periods:
        """By range, after how many points the instruction takes the same time again."""
        found = [1, 1, 1, 1]
        for operand in TABLE[Op(i.opcode)].operands:
            reference = getattr(i, operand.field)
            if reference:
                rows, inner = _of(self._tables.streams[reference - 1])
                found[operand.rows] = lcm(found[operand.rows], rows)
                found[operand.inner] = lcm(found[operand.inner], inner)
        return found[0], found[1], found[2], found[3]


def _of(stream: Stream) -> tuple[int, int]:
    """After how many rows, and inner points, the touches of a piece of the stream are the same again."""
    both = _period(stream.g1 + stream.g2)
    return lcm(_period(stream.g1), both // gcd(both, points(stream.g2))), _period(stream.g2)


def _period(nest: Nest) -> int:
    """Points of the loops inside the outermost one: a whole step of that moves a piece and cuts it alike."""
    return points(simplify(nest)[1:])
