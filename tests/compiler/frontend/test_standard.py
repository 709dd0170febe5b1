"""The standard's own cases: none comes out wrong, and what is refused is refused for a listed operator."""

from collections import Counter

from tests.compiler.standard import outcomes

# Operators of which no case at all passes yet. A new lowering rule shortens this list.
NOT_YET = 70


def test_no_case_of_the_standard_is_computed_wrongly():
    found = list(outcomes())
    wrong = [f"{o.name}: {o.reason}" for o in found if o.verdict == "wrong"]
    assert not wrong, "\n".join(wrong)
    verdicts = Counter(o.verdict for o in found)
    assert verdicts["passed"] >= 1100
    passed = {o.operator for o in found if o.verdict == "passed"}
    never = {o.operator for o in found} - passed
    assert len(never) <= NOT_YET, sorted(never)
    assert all(o.reason for o in found if o.verdict == "refused")
