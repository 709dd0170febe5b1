"""Rate a contract's shortfall against the contract minimum."""

from __future__ import annotations

from decimal import Decimal

from apps.pricing.rating.book import PriceBookDocument
from apps.pricing.rating.checks import check_amount
from apps.pricing.rating.decimals import amount_text, decimal_text
from apps.pricing.rating.errors import NotPriced, RatingError
from apps.pricing.rating.terms import LARGER, PLUS, Counts, Rating, Terms, step_of


def rate_contract_minimum(*, book: PriceBookDocument, charged: Decimal, terms: Terms) -> Rating:
    """Rate the shortfall of a contract whose lines total `charged`.

    The amount is 0 if the lines reach the contract minimum. Raises NotPriced if the book has no contract minimum, and
    RatingError if `charged` is negative.
    """
    if not book.contract_minimum:
        raise NotPriced(f"price book {book.version} asks for no minimum per contract")
    if charged < 0:
        raise RatingError(f"The lines of a contract cannot total {decimal_text(charged)}.")
    unit = book.currency.code
    least = amount_text(book.contract_minimum, exponent=book.currency.exponent)
    asked = step_of(
        "least",
        "Contract minimum",
        LARGER,
        charged,
        book.contract_minimum,
        unit,
        f"Price book {book.version}: a contract costs at least {least} {unit}, or what its lines come to where that is more.",
    )
    lacking = step_of(
        "amount",
        "Lacking to the minimum",
        PLUS,
        asked.result,
        charged.copy_negate() if charged else Decimal(0),
        unit,
        "Less what the lines come to. Exact; rounded once, on the invoice's total.",
    )
    check_amount(lacking.result, may_be_nothing=True)
    return Rating(
        book.version,
        book.digest,
        Counts(0, 0),
        1,
        terms,
        unused=True,
        steps=(asked, lacking),
        amount=lacking.result,
        currency=unit,
        charged=charged,
    )
