"""What something costs: one pure function for quote, hold, invoice and the customer's own recomputation.

No Django, no database, no clock: a price book document, counts and terms go in, steps and an exact amount come out.
"""

from apps.pricing.rating.book import Currency, PriceBookDocument, PriceClass
from apps.pricing.rating.decimals import (
    CONTEXT,
    amount_text,
    canonical_json,
    decimal_text,
    digest_of,
    exact_sum,
    multiply,
)
from apps.pricing.rating.errors import BookError, NotPriced, RatingError
from apps.pricing.rating.parse import book_from_json, book_from_text
from apps.pricing.rating.pipeline import Counts, Rating, Step, Terms, rate
from apps.pricing.rating.rounding import Payable, payable_of, shares_of
from apps.pricing.rating.tariff import Holiday, Period, Tariff, intersect, merge

__all__ = [
    "CONTEXT",
    "BookError",
    "Counts",
    "Currency",
    "Holiday",
    "NotPriced",
    "Payable",
    "Period",
    "PriceBookDocument",
    "PriceClass",
    "Rating",
    "RatingError",
    "Step",
    "Tariff",
    "Terms",
    "amount_text",
    "book_from_json",
    "book_from_text",
    "canonical_json",
    "decimal_text",
    "digest_of",
    "exact_sum",
    "intersect",
    "merge",
    "multiply",
    "payable_of",
    "rate",
    "shares_of",
]
