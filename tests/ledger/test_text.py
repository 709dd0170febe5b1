"""The text of a rating is written directly; it must be the canonical JSON of its document, whatever stands in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.pricing.rating import Counts, Rating, Terms, canonical_json
from apps.pricing.rating.terms import Step

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False)
COUNTS = st.builds(Counts, st.integers(0, 10**30), st.integers(0, 10**18))
STEPS = st.builds(Step, TEXTS, TEXTS, TEXTS, AMOUNTS, AMOUNTS, AMOUNTS, TEXTS, TEXTS)
TERMS = st.builds(
    Terms,
    TEXTS,
    TEXTS,
    TEXTS,
    TEXTS,
    st.none() | st.just(datetime(2026, 11, 20, tzinfo=UTC)),
    st.dictionaries(TEXTS, AMOUNTS, max_size=2),
    measured=st.booleans(),
    served=TEXTS,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    whole=st.builds(
        Rating,
        st.integers(1, 99),
        TEXTS,
        COUNTS,
        st.integers(1, 10**18),
        TERMS,
        st.booleans(),
        st.lists(STEPS, max_size=2).map(tuple),
        AMOUNTS,
        TEXTS,
    ),
    more=st.fixed_dictionaries(
        {
            "missed": st.booleans(),
            "measured": st.none() | st.lists(COUNTS, max_size=2).map(tuple),
            "periods": st.none() | st.dictionaries(TEXTS, st.integers(0, 10**9), max_size=3),
        }
    ),
)
def test_the_text_of_a_rating_is_its_canonical_json(whole: Rating, more: dict[str, Any]) -> None:
    rating = replace(whole, **more)
    assert rating.text == canonical_json(rating.to_json())


def test_a_value_with_an_exponent_is_written_plain_and_equal_ones_alike() -> None:
    amounts = ["1E+3", "1000", "1000.0", "-0", "0", "0E-30", "1E-15", "1.0E-15"]
    steps = [
        Step(f"{one}", "a", "times", Decimal(one), Decimal("1E-15"), Decimal(other), "", "")
        for one in amounts
        for other in amounts
    ]
    whole = Rating(
        1,
        "",
        Counts(1, 1),
        1,
        Terms("", "", "", ""),
        unused=False,
        steps=tuple(steps),
        amount=Decimal(0),
        currency="EUR",
    )
    assert whole.text == canonical_json(whole.to_json())
