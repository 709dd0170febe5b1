"""The hand-made programs run, give what they should, and satisfy the independent checker."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import targets
from compiler.isa.assembly import disassemble
from compiler.isa.binary import Binary
from compiler.isa.counting import Counts, dearest_counts
from compiler.simulator import simulate
from tests.compiler.assembler import assemble
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.programs import Sample, samples

SAMPLES = samples()


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.name)
def sample(request: pytest.FixtureRequest) -> Sample:
    found: Sample = request.param
    return found


def test_it_gives_what_the_arithmetic_says_back_to_back(sample: Sample) -> None:
    outputs, _ = simulate(sample.binary.to_bytes(), sample.feeds)
    for got, wanted in zip(outputs, sample.expected, strict=True):
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)


def test_the_independent_checker_agrees_that_it_is_legal(sample: Sample) -> None:
    target = targets.load(sample.binary.target)
    assert Oracle(sample.binary, target).violations(inferences=2) == []


def test_counters_equal_what_the_fields_say(sample: Sample) -> None:
    binary, target = sample.binary, targets.load(sample.binary.target)
    _, counters = simulate(binary.to_bytes(), sample.feeds)  # among the feeds are those that go the dearest way
    total = Counts.total(dearest_counts(target, binary, binary.rows))
    assert counters.operations == total.operations
    assert counters.executed_operations == total.executed
    assert (counters.memory.read, counters.memory.written) == (total.read, total.written)
    assert (counters.io.bytes_in, counters.io.bytes_out) == (total.bytes_in, total.bytes_out)
    assert counters.cycles == binary.latency
    assert counters.energy_fj == total.energy_fj(dict(target.energy), binary.latency)
    assert counters.storage.activations == binary.memory.activations
    assert counters.storage.total == binary.memory.total + binary.instruction_bytes


def test_bytes_and_text_give_the_program_back(sample: Sample) -> None:
    assert Binary.from_bytes(sample.binary.to_bytes()) == sample.binary
    assert assemble(disassemble(sample.binary), sample.binary.constants) == sample.binary
