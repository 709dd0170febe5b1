"""The container: a program as bytes, and back (G3).

Magic, format version, then sections in a fixed order, each with its length. ``Binary.from_bytes`` ends in a ``Binary`` that
encodes to the same bytes again, or in ``ModelError``; ``compiler.isa.check`` says what a valid program is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.isa import encoding as e
from compiler.isa.alike import Kind, kinds
from compiler.isa.instruction import INSTRUCTION_DTYPE, Instruction, unpack
from compiler.isa.program import Program
from compiler.isa.stream import Gather, Stream
from compiler.isa.tables import Port

MAGIC: Final = b"TAKTBIN\n"
FORMAT: Final = 5
STATED: Final = 4  # the format whose programs may state a longer interval than their instructions allow


@dataclass(frozen=True)
class MemoryMap:
    """Bytes of the regions of on-chip memory, from address 0 in this order, each a whole number of lines.

    ``activations`` is ``copies`` arenas of equal size, one behind the other. Addresses name the first; inference i works in
    number i mod ``copies``.
    """

    constants: int
    state: int
    activations: int
    scratch: int = 0
    copies: int = 1

    @property
    def arena(self) -> int:
        """Bytes of one arena."""
        return self.activations // self.copies

    @property
    def total(self) -> int:
        return self.constants + self.state + self.activations + self.scratch


@dataclass(frozen=True)
class StateSlot:
    """A variable that stays in the state region between inferences. ``initial``: its first bytes, row-major."""

    name: str
    base: int
    dtype: str
    shape: tuple[int, ...]
    initial: bytes


@dataclass(frozen=True, eq=False)
class Binary:
    """A program. Equal when its bytes are.

    ``instructions``: array of ``INSTRUCTION_DTYPE`` ordered by (cycle, unit). ``constants``: image of the constants region.
    ``external``: image of external memory, which ``FETCH`` reads.
    ``ports``: host tensors. ``sources``: names of source operations. ``latency`` is what the compiler promises and
    ``interval`` the cycles between the starts of inferences that run back to back; ``derived``: whether it is promised to
    be the shortest that the instructions allow, which programs of the format before do not promise. ``notes``: the compiler's
    own text about the program, which no processor reads.
    """

    target: str
    target_digest: str
    compiler_version: str
    instructions: np.ndarray[Any, Any]
    streams: tuple[Stream, ...]
    programs: tuple[Program, ...]
    gathers: tuple[Gather, ...]
    ports: tuple[Port, ...]
    states: tuple[StateSlot, ...]
    constants: bytes | memoryview  # a part of the bytes that were read: a copy would be as large as the model
    memory: MemoryMap
    sources: tuple[str, ...]
    latency: int
    interval: int
    exact: bool = True
    reason: str = ""
    notes: str = ""
    external: bytes | memoryview = b""
    derived: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binary) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    @cached_property
    def parts(self) -> list[bytes | memoryview]:
        """The program's bytes, one after another: weights where they are, not in a second place."""
        w = e.Writer()
        w.parts.append(MAGIC)
        w.pack("I", FORMAT if self.derived else STATED)
        for _, write, _ in SECTIONS:
            section = e.Writer()
            write(section, self)
            w.pack("Q", section.size)
            w.parts += section.parts
        return w.parts

    @property
    def size(self) -> int:
        """How many bytes the program has."""
        return sum(map(len, self.parts))

    @cached_property
    def data(self) -> bytes:
        return b"".join(self.parts)

    def to_bytes(self) -> bytes:
        return self.data

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes: the program's identity."""
        whole = sha256()
        for part in self.parts:
            whole.update(part)
        return whole.hexdigest()

    def write(self, path: str | PathLike[str]) -> None:
        """Put the program in a file, without having all of its bytes in one piece."""
        with Path(path).open("wb") as file:
            file.writelines(self.parts)

    @cached_property
    def instruction_bytes(self) -> int:
        """What a processor's control store holds: instructions and the tables that they refer to."""
        total = self.instructions.nbytes
        for name, write, _ in SECTIONS:
            if name in ("streams", "programs", "gathers"):
                section = e.Writer()
                write(section, self)
                total += section.size
        return total

    @cached_property
    def kinds(self) -> list[Kind]:
        """The instructions by kind."""
        return kinds(self.instructions)

    @cached_property
    def rows(self) -> list[Instruction]:
        return unpack(self.instructions)

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> Binary:
        """The program in ``data``; ``ModelError`` when it is not one. Weights stay where they are there."""
        from compiler.isa.check import check

        r = e.Reader(data if memoryview(data).readonly else bytes(data))
        r.require(bytes(r.take(len(MAGIC))) == MAGIC, "it does not begin as one; compile the model again")
        version = r.one("I")
        known = version in (STATED, FORMAT)
        r.require(known, f"its format is {version}, this version reads {STATED} and {FORMAT}; compile the model again")
        found: dict[str, Any] = {"derived": version == FORMAT}
        for name, _, read in SECTIONS:
            section = e.Reader(r.take(r.one("Q")), name)
            found |= read(section)
            section.end()
        r.end()
        binary = Binary(**found)
        check(binary)
        return binary


Section = tuple[str, Callable[[e.Writer, Binary], None], Callable[[e.Reader], dict[str, Any]]]


def _write_head(w: e.Writer, b: Binary) -> None:
    for text in (b.target, b.target_digest, b.compiler_version, b.reason, b.notes):
        w.text(text)
    m = b.memory
    w.pack("?QQQQQQQ", b.exact, b.latency, b.interval, m.constants, m.state, m.activations, m.scratch, m.copies)


def _read_head(r: e.Reader) -> dict[str, Any]:
    names = ("target", "target_digest", "compiler_version", "reason", "notes")
    head: dict[str, Any] = {name: r.text() for name in names}
    exact, latency, interval, *regions = r.unpack("BQQQQQQQ")
    r.require(exact < 2, "the exact flag is neither 0 nor 1")
    for value in (latency, interval, *regions):
        r.require(value < e.LIMIT, f"{value} is out of range")
    return head | {"exact": bool(exact), "latency": latency, "interval": interval, "memory": MemoryMap(*regions)}


def _write_state(w: e.Writer, state: StateSlot) -> None:
    w.text(state.name)
    e.write_dtype(w, state.dtype)
    w.pack("Q", state.base)
    w.many(state.shape, lambda w, n: w.pack("Q", n))
    w.blob(state.initial)


def _read_state(r: e.Reader) -> StateSlot:
    name, dtype, base = r.text(), e.read_dtype(r), r.one("Q")
    r.require(base < e.LIMIT, f"state {name!r} lies outside memory")
    shape = r.many(lambda r: int(r.one("Q")), 64)
    return StateSlot(name, base, dtype, shape, r.blob())


def _read_instructions(r: e.Reader) -> dict[str, Any]:
    data = r.take(len(r.data))
    r.require(len(data) % INSTRUCTION_DTYPE.itemsize == 0, "the last instruction is cut off")
    return {"instructions": np.frombuffer(bytes(data), INSTRUCTION_DTYPE)}


def _table(name: str, write: Callable[[e.Writer, Any], None], read: Callable[[e.Reader], Any]) -> Section:
    return (
        name,
        lambda w, b: w.many(getattr(b, name), write),
        lambda r: {name: r.many(read)},
    )


SECTIONS: Final[tuple[Section, ...]] = (
    ("head", _write_head, _read_head),
    ("instructions", lambda w, b: w.parts.append(b.instructions.tobytes()), _read_instructions),
    _table("streams", e.write_stream, e.read_stream),
    _table("programs", e.write_program, e.read_program),
    _table("gathers", e.write_gather, e.read_gather),
    _table("ports", e.write_port, e.read_port),
    _table("states", _write_state, _read_state),
    ("constants", lambda w, b: w.parts.append(b.constants), lambda r: {"constants": r.take(len(r.data))}),
    _table("sources", lambda w, text: w.text(text), lambda r: r.text()),
    ("external", lambda w, b: w.parts.append(b.external), lambda r: {"external": r.take(len(r.data))}),
)
