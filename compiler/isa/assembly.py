"""Programs as text: one line per table entry and per instruction; an instruction shows its fields that are not 0.

Constants and external memory appear as their size and digest only. Nothing else is left out: the tests' assembler
(`tests/compiler/assembler.py`) reads the same program back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from compiler.isa.binary import Binary
from compiler.isa.instruction import REDUCERS, Flag, Instruction, Op
from compiler.isa.program import Step
from compiler.isa.stream import GatherAxis, Nest, Stream
from compiler.isa.table import TABLE
from compiler.isa.tables import Port

_SHOWN_BEFORE: Final = ("opcode", "unit", "cycle", "source")


def disassemble(binary: Binary) -> str:
    """The whole program as text."""
    return "\n".join(_lines(binary)) + "\n"


def _lines(b: Binary) -> Iterator[str]:
    yield f"target {b.target} {b.target_digest}"
    yield f"compiler {json.dumps(b.compiler_version)}"
    m = b.memory
    yield (
        f"memory constants={m.constants} state={m.state} activations={m.activations} scratch={m.scratch} "
        f"copies={m.copies}"
    )
    yield f"timing latency={b.latency} interval={b.interval} derived={int(b.derived)}"
    yield f"exact {json.dumps(b.exact)} {json.dumps(b.reason)}"
    yield f"notes {json.dumps(b.notes)}"
    yield f"constants {len(b.constants)} {sha256(b.constants).hexdigest()}"
    if b.external:
        yield f"external {len(b.external)} {sha256(b.external).hexdigest()}"
    for port in b.ports:
        yield f"port {_port_text(port)}"
    for state in b.states:
        yield (
            f"state {state.dtype} {json.dumps(list(state.shape))} at={state.base} "
            f"initial={state.initial.hex() or '-'} {json.dumps(state.name)}"
        )
    for source in b.sources:
        yield f"source {json.dumps(source)}"
    for n, stream in enumerate(b.streams, 1):
        yield f"stream {n}: {_stream_text(stream)}"
    for n, program in enumerate(b.programs, 1):
        yield f"program {n}: {'; '.join(_step_text(step) for step in program.steps)}"
    for n, gather in enumerate(b.gathers, 1):
        yield f"gather {n}: {'; '.join(_axis_text(axis) for axis in gather.axes)}"
    for i in b.rows:
        yield instruction_text(i, b.sources)


def instruction_text(i: Instruction, sources: tuple[str, ...] = ()) -> str:
    """One instruction: ``@cycle unit[n] OPERATION field=value ... ; source``."""
    spec = TABLE[Op(i.opcode)]
    shown = []
    for name in spec.fields:
        value = getattr(i, name)
        if value:
            shown.append(f"{name}={field_text(name, value)}")
    where = f"@{i.cycle} {spec.unit}[{i.unit}]"
    comment = json.dumps(sources[i.source]) if i.source < len(sources) else '""'
    return f"{where} {spec.op.name} {' '.join(shown)} ; {i.source} {comment}"


def field_text(name: str, value: int) -> str:
    """An instruction's field as a word or number."""
    if name == "flags":
        return "|".join(flag.name.lower() for flag in Flag if value & flag and flag.name)
    return REDUCERS[value] if name == "reducer" else str(value)


def _port_text(port: Port) -> str:
    kind = f"{port.dtype}<{port.host}:{port.scale!r}:{port.zero}" if port.host else port.dtype
    cut = f"{port.axis}:{json.dumps(port.length)} " if port.length else ""
    return f"{'out' if port.output else 'in'} {kind} {json.dumps(list(port.shape))} {cut}{json.dumps(port.name)}"


def nest_text(nest: Nest) -> str:
    """Loops as ``extent:stride``, the outer one first."""
    return ",".join(f"{loop.extent}:{loop.stride}" for loop in nest)


def _numbers(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _stream_text(s: Stream) -> str:
    guards = "".join(f" guard({g.extent} {g.offset} {_numbers(g.coefficients)})" for g in s.guards)
    nests = " ".join(f"{name}({nest_text(nest)})" for name, nest in (("g0", s.g0), ("g1", s.g1), ("g2", s.g2)))
    return f"{s.dtype} at={s.base} {nests}{guards} fill={_literal(s.fill)}"


def _literal(value: float | None) -> str:
    return value.hex() if isinstance(value, float) else str(value)


def _step_text(step: Step) -> str:
    imm = "" if step.imm is None else f" {_literal(step.imm)}"
    return f"{step.op}.{step.dtype}{imm}{''.join(f' %{a}' for a in step.args)}"


def _axis_text(a: GatherAxis) -> str:
    return f"index={a.index} extent={a.extent} stride={a.stride} offset={a.offset} by({_numbers(a.coefficients)})"
