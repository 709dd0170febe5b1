"""Counters, counted while executing: from the arrays that instructions touch and the bytes that they move."""

from __future__ import annotations

from compiler.isa import Flag, Instruction, Program
from compiler.isa.binary import Binary
from compiler.isa.resources import Counters, Io, Load, Memory, Storage
from compiler.isa.timing import CHAIN, lanes
from compiler.simulator.forms import Array
from compiler.simulator.memory import Memory as Sram
from compiler.simulator.prepare import Prepared
from compiler.targets import Target

_EXTRA = int(Flag.EXTRA)  # a plain number: instructions are many


def _arithmetic(program: Program | None) -> int:
    return program.arithmetic if program else 0


class Tally:
    """What one inference has used so far."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.operations = 0
        self.executed = 0
        self.energy_fj = 0
        self.read = 0
        self.written = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.external_in = 0
        self.end = 0

    def moved(self, nbytes: int, *, write: bool) -> None:
        """Bytes taken from memory, or put there."""
        if write:
            self.written += nbytes
        else:
            self.read += nbytes

    def product(self, i: Instruction, dtype: str, a: Array, cells: int, post: Program | None, times: int = 1) -> None:
        """``times`` matrix products of ``a``, of type ``dtype``, and ``cells`` weights, with the epilogue of their sums."""
        rows, columns = self.target.matrix.tiles[dtype]
        macs = times * len(a) * cells
        alu = times * len(a) * i.count3 * _arithmetic(post)
        self.executed += times * len(a) * columns * (2 * rows + _arithmetic(post))
        if not i.flags & _EXTRA:
            self.operations += 2 * macs + alu
        energy = self.target.energy
        self.energy_fj += macs * energy[f"mac_{8 * a.itemsize}"] + alu * energy["alu"]

    def elements(
        self,
        i: Instruction,
        points: int,
        inner: int,
        widest: int,
        pre: Program | None,
        post: Program | None,
        times: int = 1,
    ) -> None:
        """``times`` vector instructions that produced ``points`` results from ``inner`` elements each."""
        per_element = _arithmetic(pre) + (1 if i.reducer else 0)
        alu = times * (points * inner * per_element + points * _arithmetic(post))
        width = lanes(self.target, widest)
        slots = -(-points // width) * inner if i.reducer == CHAIN else -(-points * inner // width)
        self.executed += times * (slots * per_element + -(-points // width) * _arithmetic(post)) * width
        if not i.flags & _EXTRA:
            self.operations += alu
        self.energy_fj += alu * self.target.energy["alu"]

    def scattered(self, p: Prepared) -> None:
        """Elements put to places that are data: each combined with what is there, or none."""
        alu = p.i.count1 * p.i.count2 if p.i.reducer else 0
        self.executed += alu
        self.operations += alu
        self.energy_fj += alu * self.target.energy["alu"]

    def sorted(self, p: Prepared) -> None:
        """Rows put in order by a network of 2**s points and s (s + 1) / 2 stages."""
        size, rows, points = p.reads["a"].dtype.itemsize, p.i.count1, p.i.count2
        s = 0
        while 1 << s < points:
            s += 1
        width = lanes(self.target, size)
        alu = -(-(rows << s) // width) * width * (s * (s + 1) // 2)
        self.executed += alu
        self.energy_fj += alu * self.target.energy["alu"]
        if not p.i.flags & _EXTRA:
            self.operations += rows * points

    def counters(self, binary: Binary, memory: Sram, interval: int) -> Counters:
        """The finished inference's counters."""
        energy = self.target.energy
        link = self.bytes_in + self.bytes_out
        total_energy = (
            self.energy_fj
            + self.read * energy["read_byte"]
            + self.written * energy["write_byte"]
            + link * energy["link_byte"]
            + self.external_in * energy["external_byte"]
            + self.end * energy["cycle"]
        )
        line = self.target.line_bytes
        weights, state = len(binary.constants), memory.persistent_lines * line - len(binary.constants)
        activations, scratch = binary.memory.copies * memory.top["activations"] * line, memory.top["scratch"] * line
        control = binary.instruction_bytes
        return Counters(
            operations=self.operations,
            executed_operations=self.executed,
            storage=Storage(
                weights,
                activations,
                state,
                control,
                scratch,
                weights + activations + state + control + scratch,
                len(binary.external),
            ),
            io=Io(self.bytes_in, self.bytes_out, self.external_in, 0),
            memory=Memory(self.read, self.written),
            cycles=self.end,
            interval=interval,
            energy_fj=total_energy,
            exact=binary.exact,
            reason=binary.reason,
            load=loaded(binary, memory, self.target),
        )


def loaded(binary: Binary, memory: Sram, target: Target) -> Load:
    """What was put on the processor before the first cycle, and until when its link was busy with it."""
    put = {"instructions": binary.instruction_bytes, **memory.loaded, "external": len(binary.external)}
    link, total = target.link_in, sum(put.values())
    busy = -(-total // (link.bytes_per_cycle * link.instances))
    return Load(**put, bytes_in=total, cycles_in=link.latency + busy)
