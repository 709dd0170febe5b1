"""Runs a program in the simulator. The simulator needs only the binary and its target."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from hashlib import file_digest
from mmap import ACCESS_READ, mmap
from uuid import UUID

import compiler
from apps.compilation.models import Program
from apps.compilation.selectors import program_save
from apps.dispatch.runners.block import Feeds, Outcome, Progress, stack
from apps.fleet.selectors import processor_find
from apps.registry.child import work_file
from compiler import targets


class WrongBinary(Exception):
    """Raised if the stored binary is not the one that was sold."""


def run(program: Program, feeds: Sequence[Feeds], progress: Progress) -> Outcome:
    """Execute the block's items back to back, as the device does. The outcome's counters are those of one execution."""
    data = _binary(program)
    described = processor_find(name=program.target, digest=program.target_digest)
    if described is not None:  # a custom processor: the fleet has its file
        targets.register(described)
    began = time.perf_counter_ns()
    results, counters = compiler.simulate(data, list(feeds))
    wall_ns = time.perf_counter_ns() - began
    progress(len(feeds))
    return Outcome(stack(results), counters.to_json(), wall_ns)


def _binary(program: Program) -> memoryview:
    return _bytes_of(program.digest, program.pk.hex)


@lru_cache(maxsize=8)
def _bytes_of(digest: str, program_hex: str) -> memoryview:
    # Mapped, so that a large program takes no memory of its own. The file's bytes stay until nobody maps them.
    with work_file() as path:
        program_save(Program.objects.get(pk=UUID(program_hex)), path)
        with path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
            if found != digest:
                raise WrongBinary(
                    f"The stored binary has the digest {found[:12]}, but the contract is for {digest[:12]}."
                )
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
