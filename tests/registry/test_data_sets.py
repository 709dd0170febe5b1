"""Data sets: what is taken, what is refused and why, and how items are split."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from django.core.files.storage import default_storage
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.registry.feeds import InputError
from apps.registry.labelled import labelled_check, split
from apps.registry.models import DataSet
from apps.registry.selectors import data_set_read
from apps.registry.services import dataset_add, dataset_delete
from tests.cast import Cast

NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
X = np.arange(12, dtype="float32").reshape(4, 3)
LABELS = np.array([0, 1, 2, 1])


def nan_at(item: int) -> np.ndarray:
    x = X.copy()
    x[item, 0] = np.nan
    return x


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "holds no inputs"),
    ({"labels": LABELS}, "holds no inputs"),
    ({"x": X, "labels": LABELS[:3]}, "'x' has 4, 'labels' has 3"),
    ({"x": X[:0], "labels": LABELS[:0]}, "has 0 items; it needs at least 2"),
    ({"x": X[:1]}, "has 1 item; it needs at least 2"),
    ({"x": np.zeros((40_001, 1), "float32")}, "at most 40,000 are accepted"),
    ({"x": np.float32(3)}, "single number"),
    ({"x": nan_at(2), "labels": LABELS}, "not a finite number (item 2)"),
    ({"x": np.array([["a"], ["b"]])}, "send numbers"),
    ({"x": X, "labels": np.array([0, 1, np.nan, 1])}, "no label at item 2"),
    ({"x": X, "labels": np.array([0, -1, 2, 1])}, "at item 1 is -1"),
    ({"x": X, "labels": np.array([0.5, 1, 2, 1])}, "at item 0 is 0.5"),
    ({"x": X, "labels": np.array(["0", "1", "2", "1"])}, "send class numbers"),
    ({"x": X, "labels": np.array([1, 1, 1, 1])}, "Every item has the label 1"),
    ({"x": X, "labels": np.zeros((4, 2, 2), int)}, "send one label for each item"),
    ({"x": X, "labels": np.zeros((4, 0), int)}, "holds no label"),
    ({"x": X, "labels": np.array([0, 1, 2**31 - 1, 1])}, "at item 2 is 2147483647"),
]


@pytest.mark.parametrize(("arrays", "said"), BAD, ids=[said for _, said in BAD])
def test_a_data_set_that_proves_nothing_is_refused_with_the_place(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        labelled_check({name: np.asarray(array) for name, array in arrays.items()})
    assert said in str(refused.value)


@given(st.integers(2, 300), st.integers(0, 2**63 - 1), st.data())
def test_every_item_is_in_exactly_one_part_and_the_seed_alone_decides(
    items: int, seed: int, data: st.DataObject
) -> None:
    choose = data.draw(st.integers(1, items - 1))
    parts = split(items, seed=seed, choose=choose)
    assert len(parts.choose) == choose
    assert sorted([*parts.choose, *parts.promise]) == list(range(items))
    again = split(items, seed=seed, choose=choose)
    assert (again.choose == parts.choose).all()


def test_the_split_is_the_one_that_the_guide_states() -> None:
    """Fixed for ever: a promise names its split by the seed."""
    assert split(10, seed=1, choose=4).choose.tolist() == CHOSEN


CHOSEN = [4, 6, 7, 8]


def add(cast: Cast, *, size: int | None = None, **stated: Any) -> tuple[DataSet, bool]:
    file = io.BytesIO()
    np.savez_compressed(file, **stated.pop("arrays", {"x": X, "labels": LABELS}))
    size = file.tell() if size is None else size
    file.seek(0)
    asked = {"name": "four", "seed": 1, "choose_percent": 50, **stated}
    return dataset_add(organisation=cast.organisation, file=file, size=size, actor=cast.engineer, now=NOW, **asked)


@pytest.mark.django_db
def test_the_same_data_are_kept_once_for_each_split_and_read_back(cast: Cast) -> None:
    first, is_new = add(cast)
    again, is_new_again = add(cast, name="other name")
    other, _ = add(cast, seed=2)
    assert (is_new, is_new_again, again.pk) == (True, False, first.pk)
    assert other.digest == first.digest
    assert other.pk != first.pk
    assert (first.items, first.choose, first.classes, first.label_shape) == (4, 2, 3, [])
    found = data_set_read(first)
    assert (found.inputs["x"] == X).all()
    assert found.labels is not None
    assert found.labels.tolist() == LABELS.tolist()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("stated", "status", "said"),
    [
        ({"size": 10 * 2**30}, 413, "10,737,418,240 bytes"),
        ({"choose_percent": 100}, 422, "from 1 to 99 %"),
        ({"arrays": {"x": X, "labels": LABELS[:2]}}, 422, "same number of items"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(cast: Cast, stated: dict[str, Any], status: int, said: str) -> None:
    with pytest.raises(Problem) as refused:
        add(cast, **stated)
    assert refused.value.status == status
    assert said in refused.value.detail
    assert not DataSet.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_deleted_data_set_has_no_file(cast: Cast) -> None:
    data_set, _ = add(cast)
    dataset_delete(data_set=data_set, actor=cast.engineer, now=NOW)
    assert not default_storage.exists(data_set.storage_key)
    data_set.refresh_from_db()
    with pytest.raises(FileNotFoundError):
        data_set_read(data_set)
