"""The minimum of a contract: part of the book's format, a rating of its own, and absent from books without it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pricing.rating import (
    BookError,
    NotPriced,
    PriceBookDocument,
    Rating,
    RatingError,
    Terms,
    book_from_json,
    canonical_json,
    free_tier,
    merge_ratings,
    rate_contract_minimum,
)
from apps.pricing.rating.decimals import subtract
from tests.pricing.rating.books import book, document

TERMS = Terms("lpu", "float32", "standard")


def _book(minimum: str) -> PriceBookDocument:
    return book(lambda document: document.update(contract_minimum=minimum))


def test_it_belongs_to_the_books_digest_and_comes_back_equal() -> None:
    with_minimum = _book("0.0100")
    assert with_minimum.contract_minimum == Decimal("0.01")
    assert with_minimum.to_json()["contract_minimum"] == "0.01"
    assert book_from_json(with_minimum.to_json()) == with_minimum
    assert with_minimum.digest != book().digest
    assert "contract_minimum" not in book().to_json()


@pytest.mark.parametrize("value", ["-0.01", "0.0000000000001", "1e-2", 0.01, "1000000001"])
def test_what_is_no_amount_is_refused(value: Any) -> None:
    with pytest.raises(BookError, match="contract_minimum"):
        book_from_json(document(lambda d: d.update(contract_minimum=value)))


def test_a_book_without_it_has_no_price_for_it() -> None:
    with pytest.raises(NotPriced, match="no minimum per contract"):
        rate_contract_minimum(book=book(), charged=Decimal(0), terms=TERMS)
    with pytest.raises(RatingError, match="cannot total -1"):
        rate_contract_minimum(book=_book("1"), charged=Decimal(-1), terms=TERMS)


@given(
    st.decimals(0, 100, places=40, allow_nan=False).filter(lambda value: value >= 0),
    st.decimals("0.000000000001", 100, places=12, allow_nan=False),
)
def test_a_contract_comes_to_its_lines_or_to_the_minimum_to_the_last_digit(charged: Decimal, least: Decimal) -> None:
    priced = _book(f"{least:f}")
    rating = rate_contract_minimum(book=priced, charged=charged, terms=TERMS)
    assert rating.amount == subtract(max(charged, least), charged)
    assert (rating.billed_operations, rating.counted_operations, rating.executions) == (0, 0, 1)
    assert rating.text == canonical_json(rating.to_json())
    assert Rating.from_json(rating.to_json()) == rating
    assert merge_ratings(priced, [rating]) == rating
    assert free_tier(book(lambda d: d.update(free_tera_operations="5")), [rating]) == []


def test_it_is_charged_once() -> None:
    rating = rate_contract_minimum(book=_book("1"), charged=Decimal(0), terms=TERMS)
    with pytest.raises(RatingError, match="charged once"):
        merge_ratings(_book("1"), [rating, rating])
