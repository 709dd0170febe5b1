"""A share of the standard's own cases through the interpreter: none wrong, and none refused that is not listed."""

from tests.compiler.standard import SHAPING, base, cases, interpret, outcome, refused


def chosen(every, first):
    """Every so many cases, the same ones on every machine."""
    return sorted(cases(), key=lambda case: case.name)[first::every]


def test_the_scope_is_the_whole_of_numeric_inference():
    assert len(cases()) == 1581
    assert refused() <= {case.name for case in cases()}


def test_no_case_of_the_standard_is_computed_wrongly_or_refused_anew():
    found = [outcome(case, interpret) for case in chosen(5, 1)]
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "wrong"] == []
    assert [f"{o.name}: {o.reason}" for o in found if o.verdict == "refused" and o.name not in refused()] == []
    for one in found:
        operator, names = base(one.name)
        assert set(one.bound) <= {names[i] for i in SHAPING.get(operator, ()) if i < len(names)}
        assert one.left or set(one.bound) == set(names) - {""}, f"{one.name} could take an input at run time"
