"""Which items a cascade hands on, and whose answer counts in the end."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apps.dispatch.cascade import confidences, unsure_items
from apps.registry.feeds import Joined, arrays_pack, arrays_unpack
from tests.tiers import some

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
    """Block by block, and the same bytes as the arrays packed at once."""
    first = {"p": np.arange(8, dtype="float32").reshape(4, 2), "other": np.zeros((4, 3), "float32")}
    second = {"p": np.ones((2, 2), "float32"), "other": np.ones((2, 5), "float32")}
    file = BytesIO()
    with Joined(4) as joined:
        for start, end in ((0, 3), (3, 4)):
            joined.append({name: array[start:end] for name, array in first.items()})
        for row, at in ((1, 0), (3, 1)):
            block = {name: array[at : at + 1] for name, array in second.items()}
            for name, array in joined.overwrite(np.array([row]), block).items():
                joined.add(f"second_{name}", array, rows=2)
        joined.pack(file)
    whole = {"p": first["p"].copy(), "other": first["other"], "second_other": second["other"]}
    whole["p"][[1, 3]] = 1
    assert file.getvalue() == arrays_pack(whole)
    assert arrays_unpack(file.getvalue())["p"].tolist() == [[0, 1], [1, 1], [4, 5], [1, 1]]


@settings(max_examples=some(100))
@given(outputs, st.integers(1, 7))
def test_blocks_joined_on_disk_are_the_arrays_packed_at_once(output: np.ndarray, size: int) -> None:
    file = BytesIO()
    with Joined(len(output)) as joined:
        for start in range(0, len(output), size):
            joined.append({"y": output[start : start + size]})
        joined.pack(file)
    assert file.getvalue() == arrays_pack({"y": output})
