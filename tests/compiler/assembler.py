"""The assembler: reads back what `compiler.isa.assembly` writes, so that tests see that a disassembly leaves nothing out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from compiler.errors import ModelError
from compiler.isa.binary import Binary, MemoryMap, StateSlot
from compiler.isa.instruction import REDUCERS, Flag, Instruction, Op, pack
from compiler.isa.program import Program, Step
from compiler.isa.stream import Gather, GatherAxis, Guard, Loop, Nest, Stream
from compiler.isa.tables import Port


def assemble(text: str, constants: bytes | memoryview = b"", external: bytes = b"") -> Binary:
    """The program that a disassembly describes. ``ModelError`` names the line that cannot be read."""
    a = _Assembler()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            a.line(line)
        except (ValueError, KeyError, AttributeError, IndexError) as error:
            raise ModelError(f"line {number} of the assembly cannot be read ({error}): {line[:80]}") from None
    return a.finish(constants, external)


class _Assembler:
    def __init__(self) -> None:
        self.head: dict[str, Any] = {"exact": True, "reason": "", "notes": "", "latency": 0, "interval": 0}
        self.lists: dict[str, list[Any]] = {
            name: [] for name in ("ports", "states", "sources", "streams", "programs", "gathers")
        }
        self.instructions: list[Instruction] = []

    def line(self, line: str) -> None:
        if line.startswith("@"):
            self.instructions.append(_parse_instruction(line))
            return
        word, rest = line.split(" ", 1)
        _DIRECTIVES[word](self, rest)

    def finish(self, constants: bytes | memoryview, external: bytes) -> Binary:
        tables: dict[str, Any] = {name: tuple(entries) for name, entries in self.lists.items()}
        image: dict[str, Any] = {"constants": constants, "external": external}
        return Binary(**self.head, **tables, **image, instructions=pack(self.instructions))

    def target(self, rest: str) -> None:
        self.head["target"], self.head["target_digest"] = rest.split(" ")

    def compiler(self, rest: str) -> None:
        self.head["compiler_version"] = json.loads(rest)

    def memory(self, rest: str) -> None:
        self.head["memory"] = MemoryMap(**{key: int(value) for key, value in _pairs(rest)})

    def timing(self, rest: str) -> None:
        timing = {key: int(value) for key, value in _pairs(rest)}
        self.head |= timing | {"derived": bool(timing.get("derived"))}

    def exact(self, rest: str) -> None:
        flag, reason = rest.split(" ", 1)
        self.head |= {"exact": json.loads(flag), "reason": json.loads(reason)}

    def notes(self, rest: str) -> None:
        self.head["notes"] = json.loads(rest)

    def constants(self, rest: str) -> None:
        """Only says what belongs there."""

    def external(self, rest: str) -> None:
        """Only says what belongs there."""

    def port(self, rest: str) -> None:
        direction, kind, shape, name = re.fullmatch(r"(in|out) (\S+) (\[.*?\]) (.*)", rest).groups()  # type: ignore[union-attr]
        dtype, _, converted = kind.partition("<")
        host, scale, zero = converted.split(":") if converted else ("", "1.0", "0")
        axis, _, cut = name.partition(":") if name[0] != '"' else ("0", "", "")
        length, end = json.JSONDecoder().raw_decode(cut) if cut else ("", 0)
        port = Port(
            json.loads(cut[end:] or name),
            dtype,
            tuple(json.loads(shape)),
            direction == "out",
            host,
            float(scale),
            int(zero),
            int(axis),
            length,
        )
        self.lists["ports"].append(port)

    def state(self, rest: str) -> None:
        found = re.fullmatch(r"(\w+) (\[.*?\]) at=(\d+) initial=(\S+) (.*)", rest)
        dtype, shape, base, initial, name = found.groups()  # type: ignore[union-attr]
        data = b"" if initial == "-" else bytes.fromhex(initial)
        self.lists["states"].append(StateSlot(json.loads(name), int(base), dtype, tuple(json.loads(shape)), data))

    def source(self, rest: str) -> None:
        self.lists["sources"].append(json.loads(rest))

    def stream(self, rest: str) -> None:
        self.lists["streams"].append(_parse_stream(_body(rest)))

    def program(self, rest: str) -> None:
        self.lists["programs"].append(Program(tuple(_parse_step(step) for step in _body(rest).split("; "))))

    def gather(self, rest: str) -> None:
        self.lists["gathers"].append(Gather(tuple(_parse_axis(axis) for axis in _body(rest).split("; "))))


_DIRECTIVES: Final[dict[str, Callable[[_Assembler, str], None]]] = {
    name: getattr(_Assembler, name)
    for name in (
        "target",
        "compiler",
        "memory",
        "timing",
        "exact",
        "notes",
        "constants",
        "external",
        "port",
        "state",
        "source",
        "stream",
        "program",
        "gather",
    )
}


def _body(rest: str) -> str:
    return rest.split(": ", 1)[1]


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in (pair.split("=", 1) for pair in text.split())]


def _parse_instruction(line: str) -> Instruction:
    code, comment = line.split(" ; ", 1)
    where, unit, name, *pairs = code.split()
    fields: dict[str, int] = {}
    for key, value in _pairs(" ".join(pairs)):
        if key == "flags":
            fields[key] = sum(Flag[flag.upper()] for flag in value.split("|"))
        elif key == "reducer":
            fields[key] = next(code for code, reducer in REDUCERS.items() if reducer == value)
        else:
            fields[key] = int(value)
    instance = int(unit[unit.index("[") + 1 : -1])
    source = int(comment.split(" ", 1)[0])
    return Instruction(opcode=Op[name], unit=instance, cycle=int(where[1:]), source=source, **fields)


def _parse_nest(text: str) -> Nest:
    return tuple(Loop(*map(int, loop.split(":"))) for loop in text.split(",") if loop)


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",") if n)


def _parse_stream(text: str) -> Stream:
    found = re.fullmatch(r"(\w+) at=(-?\d+) g0\((.*?)\) g1\((.*?)\) g2\((.*?)\)((?: guard\(.*?\))*) fill=(\S+)", text)
    dtype, base, g0, g1, g2, guards, fill = found.groups()  # type: ignore[union-attr]
    parsed = tuple(
        Guard(int(extent), int(offset), _ints(coefficients))
        for extent, offset, coefficients in re.findall(r"guard\((-?\d+) (-?\d+) (.*?)\)", guards)
    )
    return Stream(dtype, int(base), _parse_nest(g0), _parse_nest(g1), _parse_nest(g2), parsed, _value(fill))


def _parse_step(text: str) -> Step:
    head, *rest = text.split(" ")
    op, dtype = head.split(".")
    args = tuple(int(word[1:]) for word in rest if word.startswith("%"))
    literals = [word for word in rest if not word.startswith("%")]
    return Step(op, args, dtype, _value(literals[0]) if literals else None)


def _parse_axis(text: str) -> GatherAxis:
    found = re.fullmatch(r"index=(\d+) extent=(\d+) stride=(-?\d+) offset=(-?\d+) by\((.*?)\)", text)
    index, extent, stride, offset, coefficients = found.groups()  # type: ignore[union-attr]
    return GatherAxis(int(index), int(extent), int(stride), int(offset), _ints(coefficients))


def _value(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float.fromhex(text)
