"""The template filters and the tag for amounts and prices, registered by `templatetags/takt.py`."""

from __future__ import annotations

from decimal import Decimal

from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps import figures


def money(amount: Decimal | int | str | None, currency: figures.Currency) -> SafeString:
    """{{ quote.net|money:quote.currency }}: an amount rounded to the currency's smallest unit."""
    exact = figures.money_exact_format(amount, currency)
    return format_html('<span class="money" title="{}">{}</span>', exact, figures.money_format(amount, currency))


def price(amount: Decimal | int | str | None, currency: figures.Currency) -> SafeString:
    """{{ price|price:currency }}: a unit price with four significant digits."""
    exact = figures.money_exact_format(amount, currency)
    return format_html('<span class="money" title="{}">{}</span>', exact, figures.price_format(amount, currency))


def unit_price(
    amount: Decimal | int | str | None,
    currency: figures.Currency,
    thing: str = "execution",
    of: int = 1,
    part: str = "",
) -> SafeString:
    """{% unit_price price.amount price.currency of=1000 %}: a price such as "€ 0.01218 per million executions".

    If `part` is "price" or "per", only that part of the text is shown.
    """
    price, per = figures.unit_price_format(amount, currency, thing=thing, of=of)
    if part == "per":
        return format_html("{}", per)
    exact = figures.money_exact_format(amount, currency)
    title = f"{exact} per {'' if of == 1 else f'{of:,} '}{thing}{'' if of == 1 else 's'}"
    shown = price if part == "price" else f"{price} {per}"
    return format_html('<span class="money" title="{}">{}</span>', title, shown)


def money_exact(amount: Decimal | int | str | None, currency: figures.Currency) -> SafeString:
    """{{ line.amount|money_exact:currency }}: an amount with all its digits."""
    return format_html('<span class="money">{}</span>', figures.money_exact_format(amount, currency))
