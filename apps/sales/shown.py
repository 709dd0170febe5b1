"""The price that a page shows travels with its forms, so that no quote is made at a price that nobody has seen.

A new price book, or another hour of the tariff, may come into force while a page is open.
"""

from __future__ import annotations

import re
from decimal import Decimal

from apps.accounts.problems import Problem
from apps.figures import money_exact_format, money_format
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import AMOUNT_PLACES, decimal_of
from apps.sales.models import Quote

SHOWN = "shown"  # the name of the field
CHANGED = "price-changed"
_MARK = re.compile(r"([0-9.]{1,60}) ([A-Z]{3})")


def price_mark(amount: Decimal, currency: str) -> str:
    """A net amount and its currency's code as a form sends them again ("5.632 EUR")."""
    return f"{decimal_text(amount)} {currency}"


def price_check(mark: str, quote: Quote) -> None:
    """Raises Problem(409), which says both prices, when a page showed another price than the quote has; and where a form
    names none, such as one made by hand or before pages did: whoever sent it may not have seen the price."""
    if mark == price_mark(quote.worst, quote.currency):
        return
    if not mark:
        price = money_exact_format(quote.worst, quote.currency)
        raise Problem(
            409,
            "No price was shown",
            f"The form did not say which price its page showed; this costs {price}. No quote was made: look at the price below "
            "and make the quote if you want it.",
            kind=CHANGED,
        )
    old, new = _said(mark, quote.worst, quote.currency)
    raise Problem(
        409,
        "The price has changed",
        f"This page showed {old}; at present the same costs {new}. No quote was made: look at the price below and make the "
        "quote again if you want it.",
        kind=CHANGED,
    )


def _said(mark: str, amount: Decimal, currency: str) -> tuple[str, str]:
    """Both prices for reading; exact where they would look alike."""
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
