"""A share of the standard's cases through the binary and the simulator: what the frontend takes, the machine runs."""

from tests.compiler.frontend.test_standard import chosen
from tests.compiler.standard import outcome, refused, simulate


def test_no_compiled_case_of_the_standard_comes_out_wrong_or_is_refused_anew():
    found = [outcome(case, simulate) for case in chosen(20, 3)]
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "wrong"] == []
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "refused" and o.name not in refused()] == []
    assert len(found) >= 79
