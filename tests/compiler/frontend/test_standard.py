"""A share of the standard's own cases, interpreted and simulated: none wrong, and none refused that is not listed."""

import numpy as np
import pytest

from tests.compiler import standard
from tests.compiler.standard import (
    BFLOAT16,
    LOOSER,
    SHAPING,
    SLOW,
    base,
    cases,
    difference,
    interpret,
    outcome,
    refused,
    simulate,
    tolerances,
)
from tests.tiers import WHOLE, part


def chosen(every, first):
    """One case in `every`, the same ones on every machine. For every change, a quarter of them, without the modules whose cases
    are slow to generate."""
    return part(sorted(cases(() if WHOLE else SLOW), key=lambda case: case.name)[first::every])


@pytest.mark.thorough
def test_the_scope_is_the_whole_of_numeric_inference():
    assert len(cases()) == 1720
    assert refused() <= {case.name for case in cases()}


def test_no_case_of_the_standard_is_computed_wrongly_or_refused_anew():
    found = [outcome(case, interpret) for case in chosen(5, 1)]
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "wrong"] == []
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "refused" and o.name not in refused()] == []
    for one in found:
        operator, names = base(one.name)
        assert set(one.bound) <= {names[i] for i in SHAPING.get(operator, ()) if i < len(names)}
        assert one.left or set(one.bound) == set(names) - {""}, f"{one.name} could take an input at run time"
    assert len(found) >= (316 if WHOLE else 70)


def test_no_compiled_case_of_the_standard_comes_out_wrong_or_is_refused_anew():
    """Through the binary and the simulator: what the frontend takes, the machine runs."""
    found = [outcome(case, simulate) for case in chosen(20, 3)]
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "wrong"] == []
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "refused" and o.name not in refused()] == []
    assert len(found) >= (79 if WHOLE else 19)


@pytest.mark.parametrize("name", sorted(LOOSER))
def test_a_case_with_looser_tolerances_passes_by_them_and_needs_them(name, monkeypatch):
    case = next(case for case in cases(SLOW) if case.name == name)
    assert outcome(case, interpret).verdict == "passed"
    monkeypatch.setattr(standard, "LOOSER", {})
    assert outcome(case, interpret).verdict == "wrong"


def test_all_other_cases_are_held_to_their_own_tolerances():
    held = {
        tolerances(case, np.dtype(dtype))
        for case in cases(SLOW)
        for dtype in (np.float32, np.float16)
        if case.name not in LOOSER
    }
    assert held == {(1e-3, 1e-7)}
    case = next(case for case in cases(SLOW) if case.name not in LOOSER)
    assert tolerances(case, BFLOAT16) == (2**-6, 1e-7)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ([1.0009], [1.0], True),
        ([1.0011], [1.0], False),
        ([0.9e-7], [0.0], True),
        ([1.1e-7], [0.0], False),
        ([np.nan], [np.nan], True),
        ([np.inf], [1.0], False),
    ],
)
def test_floats_may_differ_by_both_tolerances_together(ours, theirs, same):
    found = difference(np.array(ours, np.float32), np.array(theirs, np.float32), 1e-3, 1e-7)
    assert (found == "") is same


def test_whole_numbers_may_not_differ():
    assert difference(np.array([1000]), np.array([1000]), 1e-3, 1e-7) == ""
    assert difference(np.array([1001]), np.array([1000]), 1e-3, 1e-7) == "[1001], not [1000]"
