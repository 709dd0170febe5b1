"""Amounts as Stripe's API writes them: whole numbers of the smallest unit that it takes.

That unit is the currency's by ISO 4217, whatever the price book of an invoice says.
"""

from __future__ import annotations

from decimal import Decimal

from apps.currencies import places_of
from apps.pricing.rating.decimals import multiply

# Stripe takes these with three places, of which the last must be 0 (its documents on currencies).
THREE_PLACES_STEP = 10


def minor_of(amount: Decimal, *, currency: str) -> int:
    """An amount of a currency in its smallest unit: 5.63 euros are 563.

    Raises ValueError where it is no whole number of them, or where Stripe cannot take it exactly.
    """
    exponent = places_of(currency)
    units = multiply(amount, Decimal(10) ** exponent)
    if units != int(units):
        raise ValueError(f"{amount} has more than {exponent} places")
    minor = int(units)
    if exponent == 3 and minor % THREE_PLACES_STEP:
        raise ValueError(
            f"Stripe takes amounts with three places only where the last is 0; {amount} cannot be collected"
        )
    return minor


def amount_of(minor: int, *, currency: str) -> Decimal:
    """The way back."""
    return Decimal(minor).scaleb(-places_of(currency))
