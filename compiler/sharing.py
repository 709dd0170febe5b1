"""Programs of one sequence that are on a processor together: weights and caches lie at the same addresses in all of them.

Each program of a bundle with a context is scheduled by itself; schedules do not depend on addresses. Then constants that are
equal byte for byte get one address, all others an address of their own, and variables follow them in the same order. So the
images of constants and variables are one image, and a prefill hands its caches to a step without a move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from compiler.codegen.emit import emit
from compiler.codegen.notes import buffers_of
from compiler.isa.binary import Binary
from compiler.scheduling.build import Plan


@dataclass(frozen=True)
class Emitted:
    """A program as it was written: its plan, its notes and its bytes."""

    plan: Plan
    notes: dict[str, Any]
    binary: Binary


def together(made: Sequence[Emitted]) -> list[Binary]:
    """The programs over one image of constants and variables; as they are where they have nothing to share, or where the
    image does not fit one of them."""
    binaries = [one.binary for one in made]
    if not _may_share(binaries):
        return binaries
    image = bytearray()
    places: dict[bytes, int] = {}
    moved = [_moved(one, image, places) for one in made]
    plans = [_at(one.plan, addresses, len(image)) for one, addresses in zip(made, moved, strict=True)]
    if any(
        p.target.on_chip(p.map.total, b.instruction_bytes) > p.target.memory_bytes
        for p, b in zip(plans, binaries, strict=True)
    ):
        return binaries
    return [_written(one, plan, bytes(image)) for one, plan in zip(made, plans, strict=True)]


def _may_share(binaries: Sequence[Binary]) -> bool:
    """Whether several programs keep the same variables, and have all constants on the chip."""
    kept = {tuple((s.name, s.dtype, s.shape) for s in b.states) for b in binaries}
    return len(binaries) > 1 and len(kept) == 1 and kept != {()} and not any(b.external for b in binaries)


def _moved(one: Emitted, image: bytearray, places: dict[bytes, int]) -> dict[int, int]:
    """New addresses of a program's constants by buffer; what the image lacks is appended to it."""
    addresses = {}
    for b in one.plan.space.buffers.values():
        if b.kind != "constant":
            continue
        begin = one.plan.address[b.number]
        contents = bytes(one.binary.constants[begin : begin + b.size])
        key = sha256(contents).digest() + b.size.to_bytes(8, "little")
        if key not in places:
            places[key] = len(image)
            image += contents
        addresses[b.number] = places[key]
    return addresses


def _at(plan: Plan, constants: dict[int, int], size: int) -> Plan:
    """The plan with its constants elsewhere and all that follows behind ``size`` bytes of them."""
    ahead = size - plan.map.constants
    address = {n: constants[n] if n in constants else at + ahead for n, at in plan.address.items()}
    return replace(plan, address=address, map=replace(plan.map, constants=size))


def _written(one: Emitted, plan: Plan, image: bytes) -> Binary:
    for b in plan.space.buffers.values():
        if b.kind == "constant" and b.size:
            b.data = np.frombuffer(image, np.uint8, b.size, plan.address[b.number])
    bare = replace(plan, graph=replace(plan.graph, constants={}))
    binary = emit(bare, one.notes | {"buffers": buffers_of(plan)})
    return replace(binary, constants=image, derived=one.binary.derived)
