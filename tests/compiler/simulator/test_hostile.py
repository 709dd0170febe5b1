"""Damaged bytes that still decode either run or are refused; nothing else ever comes out of the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.isa.instruction import FIELDS, Instruction, pack
from compiler.isa.stream import Loop
from compiler.simulator import SimulationError, simulate
from tests.compiler.oracle.programs import product, samples
from tests.tiers import some

SAMPLES = samples()


def _run(data: bytes, feeds: list[dict[str, np.ndarray]]) -> str:
    try:
        simulate(data, feeds)
    except ModelError as error:
        return str(error)
    return ""


@settings(deadline=None, max_examples=some(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=2),
)
def test_changed_bytes_run_or_are_refused(sample, changes) -> None:  # type: ignore[no-untyped-def]
    data = bytearray(sample.binary.to_bytes())
    for where, value in changes:
        data[int(where * len(data))] = value
    _run(bytes(data), sample.feeds)


@settings(deadline=None, max_examples=some(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SAMPLES),
    st.integers(0, 99),
    st.sampled_from([field.name for field in FIELDS]),
    st.sampled_from((0, 1, 2, 3, 255, 2**16 - 1, 2**31, 2**32 - 1)),
)
def test_any_field_of_any_instruction_may_hold_anything(sample, which: int, name: str, value: int) -> None:  # type: ignore[no-untyped-def]
    rows = list(sample.binary.rows)
    n = which % len(rows)
    bits = next(field.bits for field in FIELDS if field.name == name)
    rows[n] = rows[n]._replace(**{name: value & ((1 << bits) - 1)})
    _run(replace(sample.binary, instructions=pack(rows)).to_bytes(), sample.feeds)


@settings(deadline=None, max_examples=some(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SAMPLES),
    st.integers(0, 99),
    st.integers(1, 2**32 - 1),
    st.integers(-(2**34), 2**34),
    st.integers(-(2**34), 2**34),
)
def test_any_stream_may_point_anywhere(sample, which: int, extent: int, stride: int, base: int) -> None:  # type: ignore[no-untyped-def]
    streams = list(sample.binary.streams)
    n = which % len(streams)
    stream = streams[n]
    changed = tuple(Loop(extent, stride * stream.size) for _ in stream.g1)
    for candidate in (replace(stream, base=base * stream.size), replace(stream, g1=changed)):
        streams[n] = candidate
        _run(replace(sample.binary, streams=tuple(streams)).to_bytes(), sample.feeds)


def test_a_claimed_output_of_eight_terabytes_is_refused_without_setting_it_aside() -> None:
    sample = product()
    ports = tuple(replace(p, shape=(1 << 39,)) if p.output else p for p in sample.binary.ports)
    with pytest.raises(SimulationError, match="output 'y' is not sent completely"):
        simulate(replace(sample.binary, ports=ports).to_bytes(), sample.feeds)


def test_an_empty_program_gives_nothing() -> None:
    sample = product()
    empty = replace(sample.binary, instructions=pack([]), ports=(), latency=0)
    outputs, counters = simulate(empty.to_bytes(), {})
    assert outputs == {}
    assert (counters.cycles, counters.operations) == (0, 0)
    assert isinstance(Binary.from_bytes(empty.to_bytes()).rows, list)
    assert Instruction().opcode == 0
