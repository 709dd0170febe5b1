"""Suggested sizes and simplified formulas."""

from __future__ import annotations

from math import ceil, floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.compilation.dimensions import formula_simplified, names_shown, sizes_suggested, sizes_text
from tests.tiers import some


@pytest.mark.parametrize(
    ("shape", "dtype", "suggested"),
    [
        (["batch", 3, 224, 224], "float32", {"batch": 1}),
        (["N", 3, "H", "W"], "float32", {"N": 1, "H": 224, "W": 224}),
        (["batch_size", "sequence_length"], "int64", {"batch_size": 1, "sequence_length": 128}),
        (["x.0", "x.1"], "int64", {"x.0": 1, "x.1": 128}),
        (["x.0", 1, "x.2", "x.3"], "float32", {"x.0": 1, "x.2": 224, "x.3": 224}),
        ([1, "unk__3"], "float32", {"unk__3": 16_000}),
    ],
)
def test_usual_sizes_are_suggested(shape: list[int | str], dtype: str, suggested: dict[str, int]) -> None:
    names = [size for size in shape if isinstance(size, str)]
    assert sizes_suggested([{"name": "x", "dtype": dtype, "shape": shape}], names) == suggested


@pytest.mark.parametrize(
    ("written", "simple"),
    [
        ("floor(floor(height/2 - 1/2)/2 - 1/2) + 1", "floor((height + 1) / 4)"),
        ("floor(floor(floor(height/2 - 1/2)/2)/2) + 1", "ceil(height / 8)"),
        ("floor(w/2 - 1/2) + 1", "ceil(w / 2)"),
        ("batch", "batch"),
        ("a + b", "a + b"),
        ("floor(n/2) + n", "floor(n/2) + n"),
        ("n * n", "n * n"),
        ("__import__('os')", "__import__('os')"),
        ("floor(x / 0)", "floor(x / 0)"),
        ("(" * 3000 + "n" + ")" * 3000, "(" * 3000 + "n" + ")" * 3000),
        ("", ""),
        ("224", "224"),
    ],
)
def test_formulas_are_written_short_or_left_alone(written: str, simple: str) -> None:
    assert formula_simplified(written) == simple


@settings(max_examples=some(100), deadline=None)
@given(st.integers(1, 9), st.integers(0, 8), st.integers(2, 9), st.integers(-5, 5), st.integers(1, 500))
def test_a_simplified_formula_gives_the_same_size(m: int, a: int, k: int, c: int, size: int) -> None:
    written = f"{m}*floor((x + {a})/{k}) + {c}"
    simple = formula_simplified(written)
    value = eval(simple, {"floor": floor, "ceil": ceil, "x": size})  # noqa: S307 - our own formula
    assert value == m * ((size + a) // k) + c


def test_dimensions_without_a_name_are_called_by_their_role() -> None:
    image = {"name": "x", "dtype": "float32", "shape": ["x.0", 3, "x.2", "x.3"]}
    last = {"name": "y", "dtype": "float32", "shape": ["y.0", "y.1", "y.2", 4]}
    text = {"name": "ids", "dtype": "int64", "shape": ["ids.0", "ids.1"]}
    named = {"name": "z", "dtype": "float32", "shape": ["rows", 7]}
    assert names_shown([image], ["x.0", "x.2", "x.3"]) == {"x.0": "batch", "x.2": "height", "x.3": "width"}
    assert names_shown([last], ["y.0", "y.1", "y.2"]) == {"y.0": "batch", "y.1": "height", "y.2": "width"}
    assert names_shown([text, named], ["ids.0", "ids.1", "rows"]) == {
        "ids.0": "batch",
        "ids.1": "sequence",
        "rows": "rows",
    }
    both = names_shown([image, text], ["x.0", "ids.0"])
    assert both == {"x.0": "batch of x", "ids.0": "batch of ids"}


def test_sizes_are_written_in_words() -> None:
    assert sizes_text({"x.0": 1, "length": [16, 32]}, {"x.0": "batch"}) == "batch 1, length 16 or 32"
    assert sizes_text({}, {}) == "fixed"
