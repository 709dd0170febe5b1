"""Which items a program got right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apps.planner.metrics import NO_ANSWER, Metric, MetricError, judge

scores = hnp.arrays("float32", st.tuples(st.integers(2, 12), st.integers(2, 6)), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]))


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
        ("accuracy", (2, 3, 4), [0, 1], "one score for each class"),
        ("accuracy", (2, 3), [0, 3], "3 classes: 0 to 2"),
        ("accuracy", (2, 3), [[0, 1], [1, 2]], "choose exact match"),
        ("exact", (2, 3), [[0, 1], [1, 2]], "answers [3] positions"),
    ],
)
def test_what_cannot_be_judged_says_why(metric: str, shape: tuple[int, ...], labels: list, said: str) -> None:
    with pytest.raises(MetricError) as refused:
        judge(Metric(metric), np.zeros(shape, "float32"), "y", np.array(labels))
    assert said in str(refused.value)
