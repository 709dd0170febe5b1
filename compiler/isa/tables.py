"""The tables that instructions refer to, and the pool that builds them without duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from compiler.isa.program import Program
from compiler.isa.stream import Gather, Stream

T = TypeVar("T")


@dataclass(frozen=True)
class Port:
    """A host tensor: a graph input (``output`` False) or output, row-major in its logical shape.

    ``dtype`` crosses the link. Where ``host`` is not empty, the host has the tensor in that float type and its driver
    converts before it sends: to codes that stand for ``(code - zero) * scale``, or to a shorter float (scale 1, zero 0).
    Where ``length`` is not empty, only so many elements along ``axis`` count as the output of that name says.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    output: bool
    host: str = ""
    scale: float = 1.0
    zero: int = 0
    axis: int = 0
    length: str = ""


class Tables(Protocol):
    """What every reference in an instruction resolves in: a ``Pool`` while compiling, a ``Binary`` afterwards."""

    @property
    def streams(self) -> Sequence[Stream]: ...
    @property
    def programs(self) -> Sequence[Program]: ...
    @property
    def gathers(self) -> Sequence[Gather]: ...
    @property
    def ports(self) -> Sequence[Port]: ...


def stream_of(tables: Tables, reference: int) -> Stream | None:
    """The stream of a reference; None for 0."""
    return tables.streams[reference - 1] if reference else None


def program_of(tables: Tables, reference: int) -> Program | None:
    return tables.programs[reference - 1] if reference else None


class Pool:
    """Tables under construction. Each ``add`` method answers the reference (1 + position) of an equal entry.

    Entries are equal when their encodings are: 0.0 and -0.0 differ, a NaN equals itself.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.programs: list[Program] = []
        self.gathers: list[Gather] = []
        self.ports: list[Port] = []
        self._seen: dict[tuple[str, bytes], int] = {}

    def stream(self, stream: Stream) -> int:
        from compiler.isa.encoding import stream_bytes

        return self._add("stream", stream_bytes(stream), self.streams, stream)

    def program(self, program: Program) -> int:
        from compiler.isa.encoding import program_bytes

        return self._add("program", program_bytes(program), self.programs, program)

    def gather(self, gather: Gather) -> int:
        from compiler.isa.encoding import gather_bytes

        return self._add("gather", gather_bytes(gather), self.gathers, gather)

    def port(self, port: Port) -> int:
        """Ports are not merged: each is a tensor of its own."""
        self.ports.append(port)
        return len(self.ports)

    def _add(self, kind: str, key: bytes, table: list[Any], entry: object) -> int:
        found = self._seen.get((kind, key))
        if found is None:
            table.append(entry)
            found = self._seen[kind, key] = len(table)
        return found
