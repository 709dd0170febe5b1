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
from apps.pricing.rating.forms import (
    FreeShare,
    Reduction,
    TariffPart,
    both_ends,
    commitment_factor,
    commitment_for,
    free_tier,
    group_key,
    merge_ratings,
    minimum_topup,
    rate_bought,
    rate_lease,
    rate_quota,
    rate_schedule,
    reductions,
    tariff_bound,
    tariff_parts,
)
from apps.pricing.rating.parse import book_from_json, book_from_text
from apps.pricing.rating.pipeline import rate
from apps.pricing.rating.rounding import Payable, payable_of, shares_of
from apps.pricing.rating.tariff import Holiday, Period, Tariff, intersect, merge
from apps.pricing.rating.terms import EXECUTION, FORMS, INTERVAL, QUOTA, SPREAD, Counts, Rating, Schedule, Step, Terms

__all__ = [
    "CONTEXT",
    "EXECUTION",
    "FORMS",
    "INTERVAL",
    "QUOTA",
    "SPREAD",
    "BookError",
    "Counts",
    "Currency",
    "FreeShare",
    "Holiday",
    "NotPriced",
    "Payable",
    "Period",
    "PriceBookDocument",
    "PriceClass",
    "Rating",
    "RatingError",
    "Reduction",
    "Schedule",
    "Step",
    "Tariff",
    "TariffPart",
    "Terms",
    "amount_text",
    "book_from_json",
    "book_from_text",
    "both_ends",
    "canonical_json",
    "commitment_factor",
    "commitment_for",
    "decimal_text",
    "digest_of",
    "exact_sum",
    "free_tier",
    "group_key",
    "intersect",
    "merge",
    "merge_ratings",
    "minimum_topup",
    "multiply",
    "payable_of",
    "rate",
    "rate_bought",
    "rate_lease",
    "rate_quota",
    "rate_schedule",
    "reductions",
    "shares_of",
    "tariff_bound",
    "tariff_parts",
]
