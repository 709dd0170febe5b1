"""What crosses the link before the first cycle: as the compiler states it, as the simulator counts it, as the file holds it."""

from __future__ import annotations

import struct
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import targets
from compiler.isa.binary import MAGIC, SECTIONS, Binary
from compiler.reporting import load_of, resources_of
from compiler.simulator import simulate
from tests.compiler.oracle import wide
from tests.compiler.oracle.programs import Sample

EVERY = 3


@cache
def programs() -> list[Sample]:
    """Every processor, weights beside the chip, variables, branches."""
    return wide.samples(EVERY)


def sections(data: bytes) -> dict[str, bytes]:
    """The container's parts by name, from its bytes alone."""
    at, found = len(MAGIC) + 4, {}
    for name, *_ in SECTIONS:
        (size,) = struct.unpack_from("<Q", data, at)
        found[name] = data[at + 8 : at + 8 + size]
        at += 8 + size
    assert at == len(data)
    return found


@pytest.mark.parametrize("number", range(len(wide.PLACED[::EVERY])))
def test_loading_is_what_the_simulator_moves_and_what_the_file_holds(number: int) -> None:
    sample = programs()[number]
    target, data = targets.load(sample.binary.target), sample.binary.to_bytes()
    _, counters = simulate(data, sample.feeds[0])
    load, parts = counters.load, sections(data)
    assert load is not None
    assert load == resources_of(sample.binary, target).load
    control = sum(len(parts[name]) for name in ("instructions", "streams", "programs", "gathers"))
    lines = {
        at // target.line_bytes
        for slot in Binary.from_bytes(data).states
        for at in range(slot.base, slot.base + len(slot.initial))
    }
    state = len(lines) * target.line_bytes
    assert (load.instructions, load.constants, load.state, load.external) == (
        control,
        len(parts["constants"]),
        state,
        len(parts["external"]),
    )
    assert (load.bytes_out, load.cycles_out) == (0, 0)


def test_the_samples_have_what_is_counted() -> None:
    found = [resources_of(sample.binary, targets.load(sample.binary.target)).load for sample in programs()]
    assert all(load is not None for load in found)
    for kind in ("constants", "state", "external"):
        assert any(getattr(load, kind) for load in found), kind
    assert {sample.binary.target for sample in programs()} == set(targets.names())


@given(st.integers(0, 1 << 40), st.sampled_from(targets.names()))
def test_the_link_is_busy_for_no_cycle_more_than_its_bytes_need(size: int, name: str) -> None:
    from compiler.isa.resources import Storage

    link = targets.load(name).link_in
    load = load_of(
        Storage(weights=size, activations=7, state=0, instructions=0, scratch=9, total=size + 16), targets.load(name)
    )
    rate, busy = link.bytes_per_cycle * link.instances, load.cycles_in - link.latency
    assert (load.bytes_in, (busy - 1) * rate < size <= busy * rate) == (size, True)
