"""Amounts as Stripe's API represents them: integers in the currency's smallest unit (ISO 4217)."""

from __future__ import annotations

from decimal import Decimal

from apps.currencies import places_of
from apps.pricing.rating.decimals import multiply

# Currencies with three decimal places: Stripe requires the last to be 0 (its documentation of currencies).
THREE_PLACES_STEP = 10


def minor_of(amount: Decimal, *, currency: str) -> int:
    """Convert an amount to an integer in the currency's smallest unit: 5.63 euros become 563.

    Raises ValueError if the amount cannot be represented exactly.
    """
    exponent = places_of(currency)
    units = multiply(amount, Decimal(10) ** exponent)
    if units != int(units):
        raise ValueError(f"{amount} has more than {exponent} places")
    minor = int(units)
    if exponent == 3 and minor % THREE_PLACES_STEP:
        raise ValueError(f"Stripe requires the third decimal place to be 0; {amount} cannot be collected")
    return minor


def minor_format(minor: int, *, currency: str) -> str:
    """Format an integer amount in the currency's smallest unit, for example "5.63 EUR"."""
    code = currency.upper()
    return f"{amount_of(minor, currency=code):f} {code}"


def amount_of(minor: int, *, currency: str) -> Decimal:
    """Convert an integer in the currency's smallest unit to a decimal amount."""
    return Decimal(minor).scaleb(-places_of(currency))
