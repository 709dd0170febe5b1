"""The simulator's check bites: damage that is illegal is refused or shows in the results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.errors import ModelError
from compiler.simulator import simulate
from tests.compiler.oracle import compiled, mutate, wide
from tests.compiler.oracle.programs import samples
from tests.tiers import some


@pytest.fixture(scope="module")
def tally() -> mutate.Tally:
    return mutate.run([*samples(), *compiled.samples(), *wide.samples(every=4)], some(240), seed=7)


def test_no_illegal_program_runs_with_the_same_results_and_counters(tally: mutate.Tally) -> None:
    assert [v for v in tally.verdicts if v.escaped] == []


def test_no_legal_program_is_refused_or_counts_what_it_does_not_promise(tally: mutate.Tally) -> None:
    assert [v for v in tally.verdicts if v.wronged] == []


def test_the_damage_is_of_every_sort(tally: mutate.Tally) -> None:
    table = tally.table
    assert table[True, "refused"] > some(60)
    assert table[False, "changed"] > some(5)
    assert table[False, "survived"] > some(5)


def test_a_header_that_states_another_latency_is_refused() -> None:
    sample = samples()[0]
    for by in (-1, 1):
        wrong = replace(sample.binary, latency=sample.binary.latency + by)
        with pytest.raises(ModelError, match="states a latency of"):
            simulate(wrong.to_bytes(), sample.feeds)
