"""Runs a program in the simulator. The simulator needs only the binary and its target."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

import compiler
from apps.compilation.models import Program
from apps.compilation.selectors import program_bytes
from apps.dispatch.runners.block import Feeds, Outcome, Progress, stack
from apps.fleet.selectors import processor_find
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


def _binary(program: Program) -> bytes:
    return _bytes_of(program.digest, program.pk.hex)


@lru_cache(maxsize=8)
def _bytes_of(digest: str, program_hex: str) -> bytes:
    from hashlib import sha256
    from uuid import UUID

    data = program_bytes(Program.objects.get(pk=UUID(program_hex)))
    found = sha256(data).hexdigest()
    if found != digest:
        raise WrongBinary(f"The stored binary has the digest {found[:12]}, but the contract is for {digest[:12]}.")
    return data
