"""Parse amounts of money that people enter, by the same rules on pages and in the API."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Annotated

from pydantic import Field

from apps.accounts.problems import Problem
from apps.currencies import places_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import CONTEXT, Currency
from apps.pricing.rating.decimals import PRICE_PLACES, decimal_of
from apps.pricing.selectors import book_in_force

AMOUNT = r"^[0-9]{1,20}(\.[0-9]{1,12})?$"
MOST = Decimal(10**15)  # far above any budget, cap or invoice
AMOUNT_SENTENCE = 'Write an amount as a string that contains a plain number, such as "250.00"'
Entered = Annotated[str, Field(pattern=AMOUNT, examples=["250"])]
"""An amount in a request: a plain decimal as text. How many places it may have is its currency's to say."""
Code = Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["EUR"])]
"""The currency of a request: an ISO 4217 code."""

_PLAIN = re.compile(AMOUNT)
_GROUPED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")


def currency_of(code: str) -> Currency:
    """Return the currency with its ISO 4217 decimal places, or with more if a published price book has more."""
    stated = PriceBook.objects.filter(currency=code).values_list("document__currency__exponent", flat=True).distinct()
    return Currency(code, max([places_of(code), *map(int, stated)]))


def currencies_offered(*, now: datetime) -> list[Currency]:
    """Return the currencies in which amounts can be entered. The currency of the price book in force comes first.

    Raises Problem if no price book is in force.
    """
    codes = [book_in_force(at=now).currency, *PriceBook.objects.order_by("-version").values_list("currency", flat=True)]
    return [currency_of(code) for code in dict.fromkeys(codes)]


def currency_chosen(code: str | None, *, now: datetime) -> Currency:
    """Return the currency with this code; by default, the currency of the price book in force.

    Raises Problem if no price book is in this currency.
    """
    offered = currencies_offered(now=now)
    found = next((one for one in offered if code in (None, one.code)), None)
    if found is None:
        known = ", ".join(one.code for one in offered)
        raise Problem(422, "Another currency", f"No price book is in {code}; choose {known}.", kind="currency")
    return found


def amount_entered(text: str, *, currency: Currency) -> Decimal:
    """Parse plain decimal text as an amount. Raises Problem with a sentence that says what to enter."""
    if not _PLAIN.fullmatch(text):
        raise _refusal(f"Enter an amount in {currency.code}, such as {_example(Decimal(250), currency)}.")
    amount = Decimal(text)
    if amount > MOST:
        raise _refusal(f"Enter at most {MOST:,} {currency.code}.")
    if len(text.partition(".")[2]) > currency.exponent:
        raise _refusal(places_sentence(amount, currency))
    return amount


def amount_typed(text: str, *, currency: Currency) -> Decimal:
    """Parse an amount as people type it, such as "1,250.00".

    Commas are allowed only between thousands, because "1,50" would be read as 150.
    """
    return amount_entered(_ungrouped(text, _example(Decimal("1.5"), currency)), currency=currency)


def price_typed(text: str) -> Decimal:
    """Parse a unit price as people type it.

    Raises Problem unless the price is at least 0 and has at most 12 decimal places.
    """
    try:
        price = decimal_of(_ungrouped(text, "1.5"), places=PRICE_PLACES)
    except ValueError as error:
        raise _refusal(f"Enter a price such as 0.25, with at most {PRICE_PLACES} decimal places.") from error
    if price < 0:
        raise _refusal("Enter a price of 0 or more.")
    return price


def _ungrouped(text: str, example: str) -> str:
    text = text.strip()
    if "," not in text:
        return text
    if not _GROUPED.fullmatch(text):
        raise _refusal(f"Use a comma between thousands and a point before the decimals, for example {example}.")
    return text.replace(",", "")


def amount_check(amount: Decimal, *, currency: Currency) -> None:
    """Raise Problem unless the amount is a multiple of the currency's minor unit."""
    unit = Decimal(1).scaleb(-currency.exponent)
    if not amount.is_finite() or CONTEXT.remainder(amount, unit):
        raise _refusal(places_sentence(amount, currency))


def places_sentence(amount: Decimal, currency: Currency) -> str:
    """Say that an amount has too many decimal places, and what to write instead."""
    places = {0: "no decimal places", 1: "1 decimal place"}.get(
        currency.exponent, f"{currency.exponent} decimal places"
    )
    return f"{currency.code} has {places}; write {_example(amount, currency)}."


def _example(amount: Decimal, currency: Currency) -> str:
    unit = Decimal(1).scaleb(-currency.exponent)
    if not amount.is_finite():
        return str(unit)
    cut = amount.quantize(unit, rounding=ROUND_DOWN, context=_CUTTING)
    return f"{cut or unit:f}"


_CUTTING = CONTEXT.copy()
_CUTTING.clear_traps()


def _refusal(sentence: str) -> Problem:
    return Problem(422, "No such amount", sentence, kind="amount")
