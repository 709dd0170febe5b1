"""Amounts as Stripe's API writes them: whole numbers of the smallest unit that it takes."""

from __future__ import annotations

from decimal import Decimal

from apps.pricing.rating.decimals import multiply

# Stripe takes these with three places, of which the last must be 0 (its documents on currencies).
THREE_PLACES_STEP = 10


def minor_of(amount: Decimal, *, exponent: int) -> int:
    """An amount of a currency with that many places, in its smallest unit: 5.63 with 2 places is 563.

    Raises ValueError where it is no whole number of them, or where Stripe cannot take it exactly.
    """
    units = multiply(amount, Decimal(10) ** exponent)
    if units != int(units):
        raise ValueError(f"{amount} has more than {exponent} places")
    minor = int(units)
    if exponent == 3 and minor % THREE_PLACES_STEP:
        raise ValueError(
            f"Stripe takes amounts with three places only where the last is 0; {amount} cannot be collected"
        )
    return minor


def amount_of(minor: int, *, exponent: int) -> Decimal:
    """The way back."""
    return Decimal(minor).scaleb(-exponent)
