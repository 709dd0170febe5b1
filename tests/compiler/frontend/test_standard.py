"""A share of the standard's own cases, interpreted and simulated: none wrong, and none refused that is not listed."""

import pytest

from tests.compiler.standard import SHAPING, SLOW, base, cases, interpret, outcome, refused, simulate
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
