"""Price marks. A form sends back the displayed price, so that no quote is made at a price that the customer has not seen."""

from __future__ import annotations

import re
from decimal import Decimal

from apps.accounts.problems import Problem
from apps.figures import money_exact_format, money_format
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import AMOUNT_PLACES, decimal_of
from apps.sales.models import Quote

PRICE_FIELD = "shown"  # the name of the field
CHANGED = "price-changed"
_MARK = re.compile(r"([0-9.]{1,60}) ([A-Z]{3})")


def price_mark(amount: Decimal, currency: str) -> str:
    """Return a net amount with its currency code, such as "5.632 EUR"."""
    return f"{decimal_text(amount)} {currency}"


def price_check(mark: str, quote: Quote) -> None:
    """Raise Problem(409) if the form's price mark is missing or differs from the quote's price."""
    if mark == price_mark(quote.worst, quote.currency):
        return
    if not mark:
        price = money_exact_format(quote.worst, quote.currency)
        raise Problem(
            409,
            "No price was shown",
            f"The form did not contain the price that its page showed. The price is {price}. No quote was made. Check the "
            "price below "
            "and make the quote if you accept it.",
            kind=CHANGED,
        )
    old, new = _said(mark, quote.worst, quote.currency)
    raise Problem(
        409,
        "The price has changed",
        f"This page showed {old}, but the price is now {new}. No quote was made. Check the price below and make the "
        "quote again if you accept it.",
        kind=CHANGED,
    )


def _said(mark: str, amount: Decimal, currency: str) -> tuple[str, str]:
    found, new = _MARK.fullmatch(mark), money_format(amount, currency)
    try:
        shown = decimal_of(found[1], places=AMOUNT_PLACES) if found else None
    except ValueError:
        shown = None
    if found is None or shown is None:
        return "another price", new
    old = money_format(shown, found[2])
    if old != new:
        return old, new
    return money_exact_format(shown, found[2]), money_exact_format(amount, currency)
