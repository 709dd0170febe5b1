"""A whole program at once: one inference through a program without branches, checked and executed by kinds.

``Processor`` takes one instruction after the other and says which breaks a rule. Here the same rules are applied to all
instructions of a kind together, and those that are alike and need nothing of each other are computed in one call. What is
computed is the same to the bit, and so is what is counted; ``Unclear`` leaves a program to ``Processor``.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from compiler.isa import Flag, Op, Stream
from compiler.isa.alike import Array
from compiler.isa.binary import Binary
from compiler.isa.numbering import numbered
from compiler.simulator.batch import Shape
from compiler.simulator.count import Tally
from compiler.simulator.forms import Form
from compiler.simulator.hazards import checked, distinct
from compiler.simulator.levels import groups, levels
from compiler.simulator.memory import Memory
from compiler.simulator.placing import Crowd, Placed, Placing, Unclear
from compiler.simulator.processor import Host
from compiler.simulator.sequence import chained, sequence
from compiler.simulator.team import Work
from compiler.simulator.watch import Watch
from compiler.targets import Target

_STRETCH = 1 << 17  # accesses to lines that are looked at together
_ALONE = (int(Op.GATHER), int(Op.SCATTER), int(Op.SORT), int(Op.BRANCH))  # kinds that are few


class Whole:
    """One program on its processor, ready for one inference."""

    def __init__(self, binary: Binary, target: Target) -> None:
        records = self.records = binary.instructions
        if not len(records) or np.isin(records["opcode"], _ALONE).any():
            raise Unclear
        self.binary, self.target = binary, target
        self.placing = Placing(binary, target)
        self.crowds = [self.placing.crowd(kind) for kind in binary.kinds]
        self.cycle = records["cycle"].astype(np.int64)
        self.beats, self.latency = np.zeros((2, len(records)), np.int64)
        for crowd in self.crowds:
            timings = np.array(crowd.timings, np.int64)[crowd.timing]
            self.beats[crowd.kind.members], self.latency[crowd.kind.members] = timings.T
        self._check_units()
        self.end = int((self.cycle + self.latency + self.beats).max())
        if self.end != binary.latency:
            raise Unclear
        self.touched: list[tuple[Array, Array]] = []
        for crowd in self.crowds:
            for operand in crowd.operands:
                self._check_lines(crowd, operand)
        moving = [(crowd, [o for o in crowd.operands if not o.fixed]) for crowd in self.crowds]
        self.watch = Watch(self.placing, moving)
        self.sequence = sequence(binary, self.beats, self.latency)

    @cached_property
    def memory(self) -> Memory:
        """Made for whoever runs the program: it is as large as the model. Without a pattern, since every read is checked."""
        grain = min((stream.size for stream in self.binary.streams), default=1)
        memory = Memory(self.binary, self.target.line_bytes, grain, blank=False)
        for low, high in self.touched:
            memory.note_range(low, high)
        return memory

    def units(self) -> tuple[tuple[str, ...], Array]:
        """Names of units, and by instruction the number of its own."""
        classes = list(dict.fromkeys(crowd.unit for crowd in self.crowds))
        unit = np.zeros(len(self.records), np.int64)
        for crowd in self.crowds:
            unit[crowd.kind.members] = classes.index(crowd.unit)
        firsts, number = numbered([unit, self.records["unit"].astype(np.int64)])
        return tuple(f"{classes[unit[n]]}[{self.records['unit'][n]}]" for n in firsts.tolist()), number

    def _check_units(self) -> None:
        """No unit takes an instruction before it is done with the last."""
        _, unit = self.units()
        order = np.argsort(unit, kind="stable")
        same = np.diff(unit[order]) == 0
        if (same & (self.cycle[order][1:] < (self.cycle + self.beats)[order][:-1])).any():
            raise Unclear

    def _check_lines(self, crowd: Crowd, operand: Placed) -> None:
        """Pieces lie in memory, in one arena, and results not in the constants; notes how far each region is used."""
        m, line_bytes = self.binary.memory, self.target.line_bytes
        empty = operand.low == operand.high
        low, high = operand.low[~empty], operand.high[~empty]
        if not self._inside(low, high) or (operand.access.write and not self._writable(operand.forms, empty, low)):
            raise Unclear
        fed = operand.access.role == "a" and crowd.kind.first.opcode in (Op.LOADW, Op.MATMUL)
        if self.target.external.all_weights and fed and (low < m.constants).any():
            raise Unclear
        last = m.total - m.scratch
        if ((low < last) & (high > last)).any() and not all(form.contiguous for form in operand.forms):
            raise Unclear  # lines with gaps on both sides of a border
        self.touched.append((low // line_bytes, -(-high // line_bytes)))

    def _inside(self, low: Array, high: Array) -> bool:
        """Whether pieces lie in memory, and none of them in several arenas."""
        m = self.binary.memory
        if low.size and (int(low.min()) < 0 or int(high.max()) > m.total):
            return False
        first, last = m.constants + m.state, m.total - m.scratch
        return m.copies == 1 or bool(
            (((low >= first) & (high <= first + m.arena)) | (high <= first) | (low >= last)).all()
        )

    def _writable(self, forms: list[Form], empty: Array, low: Array) -> bool:
        """Whether every result has a place, outside the constants, and no place twice."""
        constant = int(low.min()) < self.binary.memory.constants
        return not (empty.any() or constant or any(form.repeats for form in forms))

    # -- running --------------------------------------------------------------------------------------------------------

    def run(self, host: Host) -> Tally:
        """Execute everything; what it used."""
        work = Work(self.binary, self.target, self.memory, host, self.sequence)
        sort = self._sorts(work)
        extra = self._chained()
        for start, stop in self.watch.stretches(len(self.records), _STRETCH):
            pairs = checked(self.watch.accesses(start, stop), self.memory.ready, self.memory.read_end)
            mine = extra[(extra >> 32 >= start) & (extra >> 32 < stop) & (extra & 0xFFFFFFFF >= start)]
            level = levels(distinct(np.append(pairs, mine)), start, stop - start)
            for members in groups(level, sort[start:stop]):
                work.run(members + start)
        for crowd in self.crowds:
            for operand in crowd.operands:
                sizes = np.array([form.elements * form.dtype.itemsize for form in operand.forms], np.int64)
                work.tally.moved(int(sizes[operand.which].sum()), write=operand.access.write)
        work.tally.end = self.end
        return work.tally

    def _chained(self) -> Array:
        """Pairs (later << 32 | earlier) of products and what they use in their plane."""
        found = []
        for column in self.sequence:
            after = np.flatnonzero(column >= 0)
            found.append(after << 32 | column[after])
        return np.concatenate(found)

    def _sorts(self, work: Work) -> Array:
        """By instruction a number for those that are alike in all but addresses; constant weights are taken when used."""
        sort = np.full(len(self.records), -1, np.int64)
        known: dict[tuple[int, str], tuple[int, int]] = {}
        for crowd in sorted(self.crowds, key=lambda crowd: crowd.kind.first.opcode != Op.LOADW):
            columns = []
            for operand in crowd.operands:
                found = np.array([self._shape(operand.stream, form, known, work) for form in operand.forms])
                number, first = found[operand.which].T
                at = operand.line * operand.unit + first
                work.place(operand.access.role, crowd.kind.members, number, at)
                columns.append(number)
            if crowd.kind.first.opcode == Op.LOADW and crowd.reads[0].fixed:
                work.constant[crowd.kind.members] = True
                work.require_cells(crowd.kind.first, columns[0])
                continue
            if crowd.kind.first.opcode == Op.MATMUL:
                loads = self.sequence.weights[crowd.kind.members]
                columns += [work.shapes_of("a")[loads], work.constant[loads], self.records["start3"][loads]]
            sort[crowd.kind.members] = work.team(crowd, columns)
        return self._by_chain(sort)

    def _by_chain(self, sort: Array) -> Array:
        """``sort`` with products apart that complete sums of other sorts of products."""
        before = self.sequence.before
        last = (self.records["flags"] & int(Flag.LAST)).astype(np.bool_) & (before >= 0)
        return np.where(last, len(self.records) + chained(sort, before), sort)

    def _shape(
        self, stream: Stream, form: Form, known: dict[tuple[int, str], tuple[int, int]], work: Work
    ) -> tuple[int, int]:
        """The number of a form's shape, and the bytes to its first element."""
        key = (id(form), repr(stream.fill))
        if key not in known:
            shape = Shape(form, stream.fill)
            known[key] = work.shape(shape), shape.first
        return known[key]
