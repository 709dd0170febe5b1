"""Which items a cascade hands on, and whose answer counts in the end."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apps.dispatch.cascade import confidences, overrule, unsure_items

outputs = hnp.arrays("float32", st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(0, 1, width=32))


@given(outputs, st.integers(0, 100))
def test_exactly_the_items_below_the_threshold_are_handed_on_least_sure_first(output: np.ndarray, percent: int) -> None:
    found = unsure_items(output, Decimal(percent) / 100)
    sure = confidences(output).astype(float).round(6)
    assert sorted(found) == [item for item in range(len(output)) if sure[item] < percent / 100]
    assert list(sure[found]) == sorted(sure[found])


def test_an_item_without_a_number_is_handed_on_first() -> None:
    output = np.array([[0.5, 0.2], [np.nan, 0.9], [0.1, 0.3]], "float32")
    assert list(unsure_items(output, Decimal("0.6"))) == [1, 2, 0]


def test_the_second_answer_replaces_the_first_for_the_items_handed_on() -> None:
    first = {"p": np.zeros((4, 2), "float32"), "other": np.zeros((4, 3), "float32")}
    decided = np.zeros(4, np.uint8)
    second = {"p": np.ones((2, 2), "float32"), "other": np.ones((2, 5), "float32")}
    overrule(first, decided, np.array([0, 2, 5, 7]), second, np.array([2, 7]))
    assert first["p"].tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert decided.tolist() == [0, 1, 0, 1]
    assert first["other"].sum() == 0
    assert first["second_other"].shape == (2, 5)
