"""Buckets of a symbolic dimension: one exact program for each, in one file."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING

from compiler.errors import ModelError
from compiler.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from compiler.ir import Graph
    from compiler.sessions import BundleSession

MAGIC = b"TAKTBUN\n"
SHARED = b"TAKTBUS\n"  # of a bundle that holds the image of its programs' constants once, in the first of them
MOST = 1024  # programs of one bundle


@dataclass(frozen=True)
class Buckets:
    """Graphs of one model, loaded for several values of its symbolic dimensions."""

    dims: tuple[dict[str, int], ...]
    graphs: tuple[Graph, ...]


def combinations(dims: Mapping[str, int | Sequence[int]]) -> list[dict[str, int]]:
    """All bindings of dimensions given as numbers or as lists of buckets, small ones first."""
    names = list(dims)
    choices = [[v] if isinstance(v, int) else sorted(set(v)) for v in dims.values()]
    for name, values in zip(names, choices, strict=True):
        if not values:
            raise ModelError(f"dimension {name!r} has no bucket; give at least one size")
    return [dict(zip(names, values, strict=True)) for values in product(*choices)]


@dataclass(frozen=True)
class Bundle:
    """Programs by bucket. A job is priced by, and runs on, the smallest bucket that holds it."""

    dims: tuple[dict[str, int], ...]
    programs: tuple[Program, ...]

    def program_for(self, length: int | None = None, **sizes: int) -> Program:
        """The smallest bucket that holds the sizes (by name; a single symbolic dimension may go unnamed)."""
        sizes = self.sizes(length, sizes)
        unknown = [n for n in sizes if n not in self.dims[0]]
        if unknown:
            raise ModelError(f"there is no dimension {unknown[0]!r}; the bundle has {', '.join(self.dims[0])}")
        holding = [
            (program.binary.latency, n, program)
            for n, (dims, program) in enumerate(zip(self.dims, self.programs, strict=True))
            if all(dims[name] >= size for name, size in sizes.items())
        ]
        if not holding:
            largest = ", ".join(f"{n} up to {max(d[n] for d in self.dims)}" for n in sizes)
            raise ModelError(f"no bucket holds {sizes}; the bundle holds {largest}")
        return min(holding, key=lambda h: h[:2])[2]

    def sizes(self, length: int | None, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes by name, ``length`` being that of the only dimension that varies."""
        if length is None:
            return dict(sizes)
        varying = [n for n in self.dims[0] if len({d[n] for d in self.dims}) > 1] or list(self.dims[0])
        if len(varying) != 1:
            raise ModelError(f"name the dimension: {', '.join(varying)}")
        return {**sizes, varying[0]: length}

    def session(self) -> BundleSession:
        """Runs on one sequence, whose state moves to a larger bucket when it outgrows one."""
        from compiler.sessions import BundleSession

        return BundleSession(self)

    def to_bytes(self) -> bytes:
        """All programs with their sizes as a file holds them; ``from_bytes`` reads them back."""
        image = self.shared_constants
        parts = [SHARED if image else MAGIC, struct.pack("<I", len(self.programs))]
        for n, (dims, program) in enumerate(zip(self.dims, self.programs, strict=True)):
            key = json.dumps(dims, sort_keys=True).encode()
            data = program.to_bytes()
            if image:
                at = data.index(image)
                data = struct.pack("<Q", at) + (data[:at] + data[at + len(image) :] if n else data)
            parts += [struct.pack("<IQ", len(key), len(data)), key, data]
        return b"".join(parts)

    @property
    def shared_constants(self) -> bytes:
        """The image of constants that all programs have in common (weights that lie at the same addresses); empty where
        they differ."""
        images = [program.binary.constants for program in self.programs]
        return bytes(images[0]) if len(images) > 1 and all(i == images[0] for i in images) else b""

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return sha256(self.to_bytes()).hexdigest()

    @staticmethod
    def from_bytes(data: bytes) -> Bundle:
        """The inverse of ``to_bytes``; ``ModelError`` for anything else."""
        try:
            shared = data[: len(SHARED)] == SHARED
            if not shared and data[: len(MAGIC)] != MAGIC:
                raise ValueError
            (count,) = struct.unpack_from("<I", data, len(MAGIC))
            at = len(MAGIC) + 4
            dims: list[dict[str, int]] = []
            programs: list[Program] = []
            if not 0 < count <= MOST:
                raise ValueError
            for _ in range(count):
                key_size, size = struct.unpack_from("<IQ", data, at)
                at += 12
                key = json.loads(data[at : at + key_size])
                at += key_size
                if len(data) < at + size or not all(type(v) is int for v in key.values()):
                    raise ValueError
                dims.append({str(k): int(v) for k, v in key.items()})
                body = memoryview(data)[at : at + size]
                programs.append(Program.from_bytes(_whole(body, programs) if shared else body))
                at += size
            if at != len(data):
                raise ValueError
        except (ValueError, AttributeError, struct.error):
            raise ModelError("not a bundle of programs; compile the model again") from None
        return Bundle(tuple(dims), tuple(programs))


def _whole(body: memoryview, before: Sequence[Program]) -> memoryview:
    """A program of a bundle that shares constants, with the first one's in their place."""
    (at,) = struct.unpack_from("<Q", body)
    body = body[8:]
    return memoryview(b"".join((body[:at], before[0].binary.constants, body[at:]))) if before else body


def read_programs(data: bytes) -> Program | Bundle:
    """A program or a bundle, whichever the bytes are."""
    return Bundle.from_bytes(data) if data[: len(MAGIC)] in (MAGIC, SHARED) else Program.from_bytes(data)
