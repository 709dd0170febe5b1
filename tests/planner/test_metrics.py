"""Which items a program got right."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apps.planner.metrics import NO_ANSWER, Metric, MetricError, judge
from apps.planner.scores import bound_of, f1_bound, half_width, mean_bound, runs_needed
from tests.tiers import some

scores = hnp.arrays(
    "float32", st.tuples(st.integers(2, 12), st.integers(2, 6)), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])
)


@settings(max_examples=some(100))
@given(scores, st.integers(1, 6), st.data())
def test_an_item_is_right_where_its_label_is_among_the_k_best(output: np.ndarray, k: int, data: st.DataObject) -> None:
    labels = data.draw(hnp.arrays("int64", len(output), elements=st.integers(0, output.shape[1] - 1)))
    found = judge(Metric("accuracy", k), output[:, None], "y", labels)
    for item, row in enumerate(output):
        ranked = sorted(range(len(row)), key=lambda index: (-row[index], index))  # of equal scores the first counts
        assert (found.predicted[item] == labels[item]) == (labels[item] in ranked[:k])
        assert found.predicted[item] in (labels[item], ranked[0])
        assert float(found.confidence[item]) == pytest.approx(row.max(), abs=1e-6)


def test_an_answer_that_is_not_a_number_is_wrong() -> None:
    output = np.array([[0.1, 0.9], [np.nan, 0.9]], "float32")
    assert judge(Metric("accuracy"), output, "y", np.array([1, 1])).predicted == [1, NO_ANSWER]
    assert judge(Metric("accuracy", 2), output, "y", np.array([1, 1])).predicted == [1, NO_ANSWER]


def test_agreement_is_with_what_float32_answered() -> None:
    float32 = np.array([[0.1, 0.9], [0.8, 0.2]], "float32")
    own = judge(Metric("agreement"), float32, "y", None)
    assert own.labels == own.predicted == [1, 0]
    narrow = judge(Metric("agreement"), np.array([[0.1, 0.9], [0.4, 0.6]], "float32"), "y", own.predicted)
    assert (narrow.labels, narrow.predicted) == ([1, 0], [1, 1])


def test_every_position_must_be_right() -> None:
    output = np.zeros((2, 3, 4), "float32")
    output[0, [0, 1, 2], [1, 2, 3]] = output[1, [0, 1, 2], [1, 2, 0]] = 1
    found = judge(Metric("exact"), output, "y", np.array([[1, 2, 3], [1, 2, 3]]))
    assert found.predicted == [1, 0]


def test_scores_that_are_no_probabilities_send_nothing_on() -> None:
    found = judge(Metric("accuracy"), np.array([[-3.0, 7.5]], "float32"), "y", np.array([1]))
    assert (found.has_confidence, found.confidence) == (False, ["0"])


@pytest.mark.parametrize(
    ("metric", "shape", "labels", "said"),
    [
        ("accuracy", (2, 3, 4), [0, 1], "one score per class"),
        ("accuracy", (2, 3), [0, 3], "3 classes: 0 to 2"),
        ("accuracy", (2, 3), [[0, 1], [1, 2]], "Choose exact match"),
        ("exact", (2, 3), [[0, 1], [1, 2]], "has [3] positions"),
    ],
)
def test_what_cannot_be_judged_says_why(metric: str, shape: tuple[int, ...], labels: list, said: str) -> None:
    with pytest.raises(MetricError) as refused:
        judge(Metric(metric), np.zeros(shape, "float32"), "y", np.array(labels))
    assert said in str(refused.value)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=60))
def test_the_bound_of_macro_f1_lies_below_what_was_seen(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = ([pair[side] for pair in pairs] for side in (0, 1))
    classes = sorted(set(labels))
    seen = sum(
        Fraction(2 * pairs.count((one, one)), labels.count(one) + predicted.count(one)) for one in classes
    ) / len(classes)
    bound = f1_bound(labels, predicted, classes, Fraction(1, 20))
    assert 0 <= bound <= seen
    assert f1_bound(labels, predicted, classes, Fraction(1, 200)) <= bound, "less error, lower bound"


def test_bounds_hold_as_often_as_they_promise() -> None:
    """Known distributions, drawn again and again: at most one bound in twenty may lie above the truth."""
    dice = np.random.default_rng(7)
    weights = np.array([[0.40, 0.05, 0.0], [0.05, 0.30, 0.05], [0.0, 0.10, 0.05]])  # label x answer
    hits, both = np.diag(weights), weights.sum(0) + weights.sum(1)
    truth, error = float((2 * hits / both).mean()), Fraction(1, 20)
    above = shallow = 0
    for _ in range(200):
        cells = dice.choice(9, 400, p=weights.ravel())
        above += f1_bound((cells // 3).tolist(), (cells % 3).tolist(), [0, 1, 2], error) > truth
        scores = np.where(dice.random(400) < 0.03, 0.0, 1.0)  # a rare large error: what a bootstrap misses
        shallow += mean_bound(scores.tolist(), error) > 0.97
    assert above <= 10
    assert shallow <= 10
    assert mean_bound([0.97] * 400, error) > Fraction(95, 100) - Fraction(1, 40), (
        "closer than Hoeffding where nothing varies"
    )


def test_a_mean_error_is_cut_at_its_limit_and_bounded_by_its_scores() -> None:
    output = np.array([[2.0], [5.25], [90.0], [np.nan]], "float32")
    found = judge(Metric("mean_error", limit=Decimal("0.5")), output, "y", np.array([2, 5, 6, 7]))
    assert (found.confidence, found.predicted) == (["1.000000", "0.500000", "0.000000", "0.000000"], [1, 1, 0, 0])
    items = {"labels": [1] * 4, "predicted": found.predicted, "confidence": found.confidence}
    bound = bound_of(Metric("mean_error", limit=Decimal("0.5")).title, {"choose": items, "evaluate": items})
    assert bound is not None
    assert bound(Fraction(1, 20)) == mean_bound([1, 0.5, 0, 0], Fraction(1, 20))
    assert bound_of("accuracy", {"choose": items, "evaluate": items}) is None


def test_numbers_are_held_against_float32s() -> None:
    float32 = np.array([[1.0, 2.0], [3.0, 4.0], [3.0, 4.0]], "float32")
    narrow = np.array([[1.0, 2.0], [3.0, 4.5], [3.0, np.nan]], "float32")
    assert judge(Metric("close", limit=Decimal("0.25")), narrow, "y", float32).predicted == [1, 0, 0]
    assert judge(Metric("snr", limit=Decimal(20)), narrow, "y", float32).predicted == [1, 1, 0]  # 25 / 0.25 is 20 dB
    assert judge(Metric("snr", limit=Decimal("20.1")), narrow, "y", float32).predicted == [1, 0, 0]


@settings(deadline=None)
@given(st.integers(1, 400), st.sampled_from([Fraction(1, 20), Fraction(1, 1000)]))
def test_so_many_runs_give_the_half_width(per_mille: int, error: Fraction) -> None:
    wanted = Fraction(per_mille, 1000)
    runs = runs_needed(wanted, error)
    assert half_width(runs, error) <= wanted + Fraction(1, 10**6)
    assert runs == 1 or half_width(runs - 1, error) > wanted
