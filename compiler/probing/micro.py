"""A micro-program: a few instructions, each issued when the one before is complete, so that every duration stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.isa import (
    SIZE,
    Gather,
    GatherAxis,
    Instruction,
    Loop,
    Op,
    Pool,
    Port,
    Program,
    Step,
    Stream,
    accesses,
    pack,
    program_of,
    time,
)
from compiler.isa.assembly import field_text, nest_text
from compiler.isa.binary import Binary, MemoryMap
from compiler.targets import Target

COMPILER = "micro-program"


@dataclass(frozen=True)
class MicroProgram:
    """``binary`` runs on the processor and in the simulator; everything it reads is zero."""

    name: str
    binary: Binary


class Bench:
    """Builds one micro-program. Operands are zeros that lie in the constants, or come from external memory."""

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.name = name
        self.pool = Pool()
        self.steps: list[Instruction] = []
        self.clock = 0
        self._zeros: list[tuple[int, int]] = []  # reference of a stream, first byte in the constants
        self._constants = 0
        self._arena = 0
        self._placed: list[tuple[str, Any]] = []
        self._fetched = 0

    # Streams are made in an address space of their own: constants from 0, the arena from ARENA on.

    ARENA = 1 << 36

    def zeros(self, dtype: str, g1: Sequence[tuple[int, int]] = (), g2: Sequence[tuple[int, int]] = ()) -> int:
        """Stream over zeros in the constants; loops are (extent, byte stride)."""
        at = self._constants
        self._constants += self._whole(_reach(dtype, g1, g2))
        return self._stream(dtype, at, g1, g2)

    def factor(self, dtype: str, g1: Sequence[tuple[int, int]], g2: Sequence[tuple[int, int]]) -> int:
        """Zeros that planes may multiply with: fetched first where the processor insists on it."""
        if not self.target.external.all_weights:
            return self.zeros(dtype, g1, g2)
        size, at = _reach(dtype, g1, g2), self.ARENA + self._arena
        self._arena += self._whole(size)
        whole = self._stream("u8", at, [(size, 1)])
        step = self.target.external.tile
        for low in range(0, size, step):
            count = min(step, size - low)
            self.add(Op.FETCH, out=whole, offset=self._fetched + low, start1=low, count1=count)
        self._fetched += size
        return self._stream(dtype, at, g1, g2)

    def result(self, dtype: str, g1: Sequence[tuple[int, int]] = (), g2: Sequence[tuple[int, int]] = ()) -> int:
        """Stream that a result is written to."""
        at = self.ARENA + self._arena
        self._arena += self._whole(_reach(dtype, g1, g2))
        return self._stream(dtype, at, g1, g2)

    def external(self, size: int) -> int:
        """First byte of ``size`` bytes in external memory."""
        at = self._fetched
        self._fetched += size
        return at

    def program(self, *steps: tuple[Any, ...]) -> int:
        return self.pool.program(Program(tuple(Step(*step) for step in steps)))

    def port(self, dtype: str, count: int, *, output: bool) -> int:
        return self.pool.port(Port(f"{'y' if output else 'x'}{len(self.pool.ports)}", dtype, (count,), output))

    def gather(self, index: int, extent: int, stride: int, loops: int) -> int:
        return self.pool.gather(Gather((GatherAxis(index, extent, stride, 0, (0,) * loops),)))

    def add(self, op: Op, **fields: int) -> None:
        """Issue an instruction when everything before is complete."""
        i = Instruction(opcode=op, **({"count1": 1, "count2": 1} | fields))._replace(cycle=self.clock)
        self.steps.append(i)
        self.clock += time(self.target, self.pool, i).end

    def finish(self) -> MicroProgram:
        """The program with its memory laid out."""
        shift = self._constants - self.ARENA
        streams = tuple(
            s if s.base < self.ARENA else Stream(s.dtype, s.base + shift, s.g0, s.g1, s.g2) for s in self.pool.streams
        )
        branches = any(i.opcode == Op.BRANCH for i in self.steps)
        binary = Binary(
            target=self.target.name,
            target_digest=self.target.digest,
            compiler_version=COMPILER,
            instructions=pack(self.steps),
            streams=streams,
            programs=tuple(self.pool.programs),
            gathers=tuple(self.pool.gathers),
            ports=tuple(self.pool.ports),
            states=(),
            constants=bytes(self._constants),
            memory=MemoryMap(self._constants, 0, self._arena),
            sources=(self.name,),
            latency=self.clock,
            interval=self.clock,
            exact=not branches,
            reason="a branch is probed" if branches else "",
            external=bytes(self._fetched),
        )
        return MicroProgram(self.name, binary)

    def _whole(self, size: int) -> int:
        return self.target.lines(size) * self.target.line_bytes

    def _stream(
        self, dtype: str, at: int, g1: Sequence[tuple[int, int]] = (), g2: Sequence[tuple[int, int]] = ()
    ) -> int:
        loops = [tuple(Loop(*loop) for loop in group) for group in (g1, g2)]
        return self.pool.stream(Stream(dtype, at, (), loops[0], loops[1]))


def _reach(dtype: str, *groups: Sequence[tuple[int, int]]) -> int:
    """Bytes from the first element to the end of the last."""
    return SIZE[dtype] + sum((extent - 1) * stride for group in groups for extent, stride in group)


def described(binary: Binary, i: Instruction) -> str:
    """An instruction's operands in words: everything that its duration depends on."""
    words = [f"count={i.count1}x{i.count2}" + (f"x{i.count3}" if i.count3 else "")]
    words += [f"{f}={field_text(f, getattr(i, f))}" for f in ("flags", "reducer") if getattr(i, f)]
    for field in ("pre", "post"):
        program = program_of(binary, getattr(i, field))
        if program is not None:
            words.append(f"{field}={'+'.join(s.op for s in program.steps if s.op not in ('arg', 'const')) or 'copy'}")
    for a in accesses(binary, i):
        s = binary.streams[a.stream]
        words.append(f"{a.role}={s.dtype}[{nest_text(s.g1)}/{nest_text(s.g2)}]")
    return " ".join(words)
