"""Options of a compile: how they are written, stored and put into the digest."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.compilation.options import (
    OptionError,
    bounds_read,
    constants_read,
    keeps_state,
    options_of,
    options_text,
    pairs_read,
)
from apps.compilation.services.keeping import options_digest
from tests.tiers import some

NAME = st.text(st.characters(categories=("L", "N"), include_characters="._/:-"), min_size=1, max_size=12)


@settings(max_examples=some(200))
@given(st.dictionaries(NAME, NAME, max_size=5))
def test_pairs_are_read_as_they_are_written(pairs: dict[str, str]) -> None:
    assert pairs_read("\n".join(f" {name} = {value} " for name, value in pairs.items())) == pairs


@settings(max_examples=some(400))
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    for read in (pairs_read, bounds_read, constants_read):
        with suppress(OptionError):
            json.dumps(read(text), allow_nan=False)


def test_without_options_a_program_keeps_its_digest() -> None:
    assert options_of() == {}
    assert options_digest({"n": 1}, {}, "", {}) == options_digest({"n": 1}, {})
    assert options_digest({"n": 1}, {}, "", options_of(context=8)) != options_digest({"n": 1}, {})


def test_what_stays_on_the_processor_is_known() -> None:
    assert keeps_state(options_of(context=8))
    assert keeps_state(options_of(states={"a": "b"}))
    assert not keeps_state(options_of(bounds={"loop": 3}))
    assert options_text(options_of(context=1024, states={"a": "b", "c": "d"}, bounds={"l": 1})) == (
        "context 1,024, 2 states, 1 loop bound"
    )


@pytest.mark.parametrize("text", ["a=1\na=2", "a=NaN", "a={}", 'a="x"', "a=1e999", "a=" + "[" * 9000])
def test_constants_are_numbers_each_named_once(text: str) -> None:
    with pytest.raises(OptionError):
        constants_read(text)
