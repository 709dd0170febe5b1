"""The contract minimum, and the shortfall of a contract whose lines cost less.

The shortfall is a line of the quote and part of the hold. When the contract closes, the actual shortfall is billed.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from apps.pricing.rating import PriceBookDocument, Rating, Terms, decimal_text, exact_sum, rate_contract_minimum
from apps.pricing.rating.decimals import subtract

NOTHING = Decimal(0)
TITLE = "Contract minimum"


def minimum_rating(book: PriceBookDocument, terms: Terms, amounts: Iterable[Decimal]) -> Rating | None:
    """Rate the shortfall against the contract minimum. Return None if the book has no contract minimum.

    `amounts`: the amounts of the lines. `terms`: the terms of the first line.
    """
    if not book.contract_minimum:
        return None
    return rate_contract_minimum(book=book, charged=exact_sum(amounts), terms=terms)


def with_minimum(book: PriceBookDocument, amount: Decimal) -> Decimal:
    """Return `amount`, or the contract minimum if that is higher."""
    return max(amount, book.contract_minimum)


def minimum_lacking(book: PriceBookDocument, amount: Decimal) -> Decimal:
    """Return the shortfall against the contract minimum if the lines cost `amount`."""
    return subtract(with_minimum(book, amount), amount)


def minimum_json(book: PriceBookDocument, rating: Rating, expected: Decimal) -> dict[str, Any]:
    """Return the shortfall as a line of the quote. `expected`: the expected sum of the other lines."""
    return {
        "title": TITLE,
        "at_least": decimal_text(book.contract_minimum),
        "rating": rating.to_json(),
        "amount": decimal_text(rating.amount),
        "expected_amount": decimal_text(minimum_lacking(book, expected)),
    }


def minimum_quoted(document: dict[str, Any]) -> Decimal:
    """Return the shortfall stated in a quote's document or a contract's terms; 0 if there is none."""
    return Decimal(document["minimum"]["amount"]) if "minimum" in document else NOTHING
