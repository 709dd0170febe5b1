"""The solver: exhaustive, exact, honest about what it proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.planner.solver import OBJECTIVES, Answers, Candidate, Evaluated, Requirements, Variant, solve
from apps.planner.solver.answers import count_cascade, judge
from apps.planner.solver.combinations import PARTS
from apps.planner.solver.thresholds import choose_threshold
from apps.registry.confidence import lower_bound
from benchmarks.planner import found_of
from benchmarks.trying import bound, tried
from tests.tiers import some


def priced(unit: str) -> Callable[[int], Decimal]:
    return lambda executions: Decimal(unit) * executions


def variant(key: str, unit: str = "1", **changes: object) -> Variant:
    stated: dict[str, object] = {
        "key": key,
        "model": key.split("@", maxsplit=1)[0],
        "pool": key.split("@")[1],
        "price": priced(unit),
        "latency": Fraction(1, 1000),
        "interval": Fraction(1, 2000),
        **changes,
    }
    return Variant(**stated)  # type: ignore[arg-type]


@st.composite
def answers(draw: st.DrawFn, items: int) -> Answers:
    right = draw(st.lists(st.booleans(), min_size=items, max_size=items))
    confidence = draw(st.lists(st.integers(0, 20), min_size=items, max_size=items))
    wrong = draw(st.lists(st.integers(1, 2), min_size=items, max_size=items))
    predicted = tuple(0 if is_right else other for is_right, other in zip(right, wrong, strict=True))
    return Answers(tuple(right), tuple(Decimal(value) / 20 for value in confidence), predicted)


@st.composite
def evaluated(draw: st.DrawFn) -> Evaluated:
    return Evaluated(draw(answers(12)), draw(answers(15)), "probabilities")


@st.composite
def markets(draw: st.DrawFn) -> list[Variant]:
    models = {name: draw(evaluated()) for name in ("a", "b", "c")}
    return [
        variant(
            f"{name}@{pool}",
            str(draw(st.integers(1, 9))),
            evaluated=models[name],
            latency=Fraction(draw(st.integers(2, 9)), 1000),
            missing=("not there",) if draw(st.integers(0, 5)) == 0 else (),
        )
        for name, pool in product("abc", ("p", "q"))
    ]


WANTED = st.builds(
    Requirements,
    items=st.integers(1, 100),
    accuracy=st.none() | st.fractions(Fraction(1, 10), Fraction(9, 10)),
    latency=st.none() | st.fractions(Fraction(1, 1000), Fraction(2, 100)),
    budget=st.none() | st.integers(1, 900).map(Decimal),
    objective=st.sampled_from(OBJECTIVES),
)


def measured(candidate: Candidate, objective: str) -> Fraction:
    """What the objective asks least of."""
    values = {"cost": candidate.price, "latency": candidate.latency, "device_time": candidate.duration}
    value = values[objective]
    assert value is not None
    return Fraction(value)


@settings(deadline=None, max_examples=some(40))
@given(markets(), WANTED)
def test_the_feasible_ones_are_all_that_trying_finds_and_the_best_is_chosen(
    market: list[Variant], wanted: Requirements
) -> None:
    """Trying is written without the solver's code: every single, cascade and ensemble with every threshold."""
    solution = solve(market, wanted)
    feasible = [c for c in solution.candidates if c.feasible]
    assert [found_of(candidate) for candidate in feasible] == tried(market, wanted)
    assert (solution.chosen is None) == (not feasible)
    if solution.chosen is not None:
        ours = measured(solution.candidates[solution.chosen], wanted.objective)
        assert ours == min(measured(c, wanted.objective) for c in feasible)


@settings(deadline=None, max_examples=some(60))
@given(markets(), WANTED)
def test_every_combination_is_there_and_every_refused_one_says_why(market: list[Variant], wanted: Requirements) -> None:
    solution = solve(market, wanted)
    singles = [c for c in solution.candidates if c.kind == "single"]
    assert sorted(c.uses[0].key for c in singles) == sorted(v.key for v in market)
    assert all(c.feasible or all(c.reasons) for c in solution.candidates)
    by_key = {v.key: v for v in market}
    for several in (c for c in solution.candidates if c.kind != "single"):
        assert len({by_key[use.key].pool for use in several.uses}) == 1


@settings(deadline=None, max_examples=some(60))
@given(markets(), WANTED)
def test_the_proposed_change_makes_its_candidate_feasible(market: list[Variant], wanted: Requirements) -> None:
    solution = solve(market, wanted)
    for change in solution.changes:
        relaxed = {**vars(wanted), **dict(change.values)}
        if "budget" in dict(change.values):
            value = dict(change.values)["budget"]
            relaxed["budget"] = Decimal(value.numerator) / Decimal(value.denominator)
        names = [(c.title, c.pool) for c in solve(market, Requirements(**relaxed)).candidates if c.feasible]
        wished = solution.candidates[change.candidate]
        if wished.kind == "single" or "accuracy" not in dict(change.values):
            assert (wished.title, wished.pool) in names


@settings(deadline=None, max_examples=some(60))
@given(markets())
def test_the_frontier_holds_what_nothing_beats(market: list[Variant]) -> None:
    candidates = [c for c in solve(market, Requirements(items=10)).candidates if c.feasible]

    def beats(one: object, other: object) -> bool:
        points = [(Fraction(c.price), c.latency, -c.accuracy) for c in (one, other)]  # type: ignore[attr-defined]
        return all(a <= b for a, b in zip(*points, strict=True)) and points[0] != points[1]

    for candidate in candidates:
        assert candidate.on_frontier == (not any(beats(other, candidate) for other in candidates))


@given(evaluated(), evaluated(), st.fractions(Fraction(1, 10), Fraction(9, 10)))
@settings(max_examples=some(100), deadline=None)
def test_the_threshold_never_looks_at_the_items_that_judge_it(
    first: Evaluated, second: Evaluated, wanted: Fraction
) -> None:
    flipped = Answers(tuple(not right for right in first.test.right), tuple(1 - c for c in first.test.confidence))
    other = Evaluated(first.tuning, flipped, first.output)
    error = Fraction(1, 20)
    assert choose_threshold(first, second, wanted, error) == choose_threshold(other, second, wanted, error)


def cascade_counts(first: Answers, second: Answers, threshold: Decimal) -> tuple[int, int]:
    """(items right, items that went on) when the second answers what the first is less sure of than `threshold`."""
    on = [confidence < threshold for confidence in first.confidence]
    right = sum(b if goes else a for a, b, goes in zip(first.right, second.right, on, strict=True))
    return right, sum(on)


@given(evaluated(), evaluated(), st.none() | st.fractions(Fraction(1, 10), Fraction(9, 10)))
@settings(max_examples=some(100), deadline=None)
def test_no_threshold_that_should_do_is_lower_than_the_chosen_one(
    first: Evaluated, second: Evaluated, wanted: Fraction | None
) -> None:
    """By trying each: the lowest whose share here would do there, or else the one with the most right answers."""
    error, here, there = Fraction(1, 20), first.tuning.total, first.test.total
    thresholds = sorted({Decimal(0), *first.tuning.confidence})
    right = [cascade_counts(first.tuning, second.tuning, threshold)[0] for threshold in thresholds]
    enough = [wanted is not None and lower_bound(count * there // here, there, error) >= wanted for count in right]
    best = enough.index(True) if any(enough) else right.index(max(right))
    assert choose_threshold(first, second, wanted, error) == thresholds[best]


@given(evaluated(), evaluated(), st.none() | st.fractions(Fraction(1, 10), Fraction(9, 10)))
@settings(max_examples=some(100), deadline=None)
def test_a_cascade_is_judged_by_counting(first: Evaluated, second: Evaluated, wanted: Fraction | None) -> None:
    error = Fraction(1, 40)
    threshold = choose_threshold(first, second, wanted, error)
    judged = judge(count_cascade((first, second), (threshold,), on_tuning=False), error)
    right, on = cascade_counts(first.test, second.test, threshold)
    assert (judged.counted.correct, judged.counted.reached) == (right, (on,))
    assert judged.accuracy == bound(right, 15, error)
    assert judged.shares[0] >= Fraction(on, 15)


def answered(right: int, wrong: int, *, sure: str = "0.9", unsure: str = "0.4") -> Answers:
    """Right answers with one confidence, then wrong ones with another; the label is 0 throughout."""
    confidence = (Decimal(sure),) * right + (Decimal(unsure),) * wrong
    return Answers((True,) * right + (False,) * wrong, confidence, (0,) * right + (1,) * wrong)


def test_bounds_of_several_choices_hold_together() -> None:
    """Two models alone, and of their cascade the accuracy and the share that goes on: four bounds at a fourth of the error."""
    small = Evaluated(answered(8, 2), answered(90, 10), "p")
    large = Evaluated(answered(10, 0), answered(99, 1, unsure="0.9"), "p")
    market = [variant("small@p", "1", evaluated=small), variant("large@p", "50", evaluated=large)]
    solution = solve(market, Requirements(items=1000, accuracy=Fraction(85, 100)))
    assert (solution.error, solution.bounds) == (Fraction(1, 80), 4)
    found = {c.title: c for c in solution.candidates}
    assert found["small"].accuracy == lower_bound(90, 100, Fraction(1, 80))
    cascade = found["small then large"]
    assert cascade.accuracy == lower_bound(99, 100, Fraction(1, 80))
    assert (cascade.thresholds, cascade.feasible) == ((Decimal("0.9"),), True)
    assert solution.chosen == 0
    assert solution.candidates[0] is cascade, "cheaper than the large one, more accurate than the small one"


def test_a_cascade_that_sends_nothing_on_is_the_single_model() -> None:
    """The small model is never unsure, so no threshold that it reaches sends an item on."""
    small = Evaluated(answered(8, 2, unsure="0.9"), answered(90, 10), "p")
    large = Evaluated(answered(10, 0), answered(99, 1), "p")
    solution = solve([variant("small@p", evaluated=small), variant("large@p", evaluated=large)], Requirements(items=10))
    assert {c.title for c in solution.candidates} == {"small", "large"}


def mistaken(*at: int) -> Evaluated:
    """Wrong on these of 20 items, in a class of its own each time, and as sure everywhere."""
    right = tuple(item not in at for item in range(20))
    part = Answers(
        right, (Decimal("0.9"),) * 20, tuple(0 if one else 1 + len(at) + item for item, one in enumerate(right))
    )
    return Evaluated(part, part, "p")


def test_three_models_that_err_on_different_items_outvote_each_other() -> None:
    models = {"a": mistaken(0), "b": mistaken(1, 2), "c": mistaken(3, 4, 5)}
    market = [variant(f"{name}@p", evaluated=one) for name, one in models.items()]
    (vote,) = [c for c in solve(market, Requirements(items=7)).candidates if c.kind == "ensemble"]
    assert (vote.title, vote.correct, vote.outputs) == ("vote of a, b and c", 20, ("p", "p", "p"))
    assert [(use.executions, use.expected) for use in vote.uses] == [(7, 7)] * 3
    assert vote.latency == 3 * Fraction(1, 1000), "one after another on the pool"
    unlike = [replace(one, classes=number) for number, one in enumerate(market)]
    assert not [c for c in solve(unlike, Requirements(items=7)).candidates if c.kind == "ensemble"]


def test_many_models_are_combined_by_a_stated_number_of_them() -> None:
    """The work of a request stays bounded; alone each is tried."""
    models = [variant(f"m{n}@p", str(n + 1), evaluated=mistaken(*range(19 - n % 20))) for n in range(40)]
    solution = solve(models, Requirements(items=5))
    (narrowed,) = solution.narrowed
    assert (narrowed.pool, narrowed.used, narrowed.known) == ("p", PARTS, 40)
    assert len([c for c in solution.candidates if c.kind == "single"]) == 40
    assert solution.examined < 1000


def test_a_model_without_evaluation_cannot_promise_an_accuracy() -> None:
    only = [variant("net@p")]
    assert solve(only, Requirements(items=5)).chosen == 0
    refused = solve(only, Requirements(items=5, accuracy=Fraction(1, 2)))
    assert refused.chosen is None
    assert refused.candidates[0].reasons == ("The program was not evaluated, so no accuracy can be promised.",)
    assert refused.changes == ()


def test_what_has_no_price_is_refused_and_never_free() -> None:
    def unpriced(executions: int) -> Decimal:
        raise ValueError("Not priced: nothing is known.")

    solution = solve([variant("net@p", price=unpriced)], Requirements(items=5))
    assert solution.chosen is None
    assert solution.candidates[0].price is None
    assert solution.candidates[0].reasons == ("Not priced: nothing is known.",)


def test_the_duration_counts_every_interval_and_the_last_latency() -> None:
    solution = solve([variant("net@p")], Requirements(items=5))
    assert solution.candidates[0].duration == 5 * Fraction(1, 2000) + Fraction(1, 2000)


@pytest.mark.parametrize("items", [0, -1])
def test_a_plan_for_nothing_is_refused(items: int) -> None:
    with pytest.raises(ValueError, match="at least one item"):
        solve([variant("net@p")], Requirements(items=items))
