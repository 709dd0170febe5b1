"""The simulator's check bites: damage that is illegal is refused or shows in the results."""

from __future__ import annotations

import pytest

from tests.compiler.oracle import compiled, mutate
from tests.compiler.oracle.programs import samples


@pytest.fixture(scope="module")
def tally() -> mutate.Tally:
    return mutate.run([*samples(), *compiled.samples()], 200, seed=7)


def test_no_illegal_program_runs_with_the_same_results(tally: mutate.Tally) -> None:
    assert [v for v in tally.verdicts if v.escaped] == []


def test_no_legal_program_is_refused(tally: mutate.Tally) -> None:
    assert [v for v in tally.verdicts if v.wronged] == []


def test_the_damage_is_of_every_sort(tally: mutate.Tally) -> None:
    table = tally.table
    assert table[True, "refused"] > 30
    assert table[False, "changed"] > 5
    assert table[False, "survived"] > 5
