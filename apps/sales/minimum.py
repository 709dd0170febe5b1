"""The minimum of a contract: what its lines lack to the least that the price book asks for a contract.

It is a line of the quote, held with the rest, and charged when the contract closes: then by what was charged for its use,
so that the whole never comes to less than the minimum, nor to more than was held.
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
    """What lines of these amounts lack to the minimum, under the terms of the contract's first line; None where the book
    asks for none."""
    if not book.contract_minimum:
        return None
    return rate_contract_minimum(book=book, charged=exact_sum(amounts), terms=terms)


def with_minimum(book: PriceBookDocument, amount: Decimal) -> Decimal:
    """What a contract costs whose lines come to `amount`."""
    return max(amount, book.contract_minimum)


def minimum_lacking(book: PriceBookDocument, amount: Decimal) -> Decimal:
    """What lines that come to `amount` lack to the minimum."""
    return subtract(with_minimum(book, amount), amount)


def minimum_json(book: PriceBookDocument, rating: Rating, expected: Decimal) -> dict[str, Any]:
    """The line of the quote; `expected` is what is expected of the other lines."""
    return {
        "title": TITLE,
        "at_least": decimal_text(book.contract_minimum),
        "rating": rating.to_json(),
        "amount": decimal_text(rating.amount),
        "expected_amount": decimal_text(minimum_lacking(book, expected)),
    }


def minimum_quoted(document: dict[str, Any]) -> Decimal:
    """What a stored quote, or the terms of a contract, ask for beyond their lines."""
    return Decimal(document["minimum"]["amount"]) if "minimum" in document else NOTHING
