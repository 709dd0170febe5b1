"""Scattered writes against a loop over the elements, one after another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.numerics.scatter import scatter
from tests.tiers import some

JOIN = {
    None: lambda _, new: new,
    "sum": np.add,
    "prod": np.multiply,
    "max": lambda old, new: old if old >= new or old != old else new,
    "min": lambda old, new: old if old <= new or old != old else new,
}


@pytest.mark.parametrize("reducer", JOIN)
@settings(max_examples=some(100))
@given(
    places=st.lists(st.integers(0, 6), max_size=40),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(["f4", "f2", "f8", "i4", "u1", "i8"]),
)
def test_elements_are_written_in_ascending_order(reducer, places, seed, dtype):
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(len(places)) * 9).astype(dtype)
    target = (rng.standard_normal(7) * 9).astype(dtype)
    expected = target.copy()
    with np.errstate(all="ignore"):
        for place, value in zip(places, values, strict=True):
            expected[place] = JOIN[reducer](expected[place], value)
    scatter(target, np.array(places, np.int64), values, reducer)
    assert target.tobytes() == expected.tobytes()
