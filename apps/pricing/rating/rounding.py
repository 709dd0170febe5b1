"""The only rounding of charged amounts: half-even to the currency's minor unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

from apps.pricing.rating.decimals import exact_sum, subtract

_ROUNDING = Context(prec=120, traps=[InvalidOperation])


@dataclass(frozen=True)
class Payable:
    """An exact total and its payable part, such that exact == payable + carried + correction."""

    exact: Decimal
    payable: Decimal
    carried: Decimal
    correction: Decimal


def payable_of(exact: Decimal, *, exponent: int) -> Payable:
    """Round a total half-even to the minor unit. A total below one minor unit is carried to the next invoice."""
    unit = Decimal(1).scaleb(-exponent)
    zero = Decimal(0).quantize(unit)
    if abs(exact) < unit:
        return Payable(exact=exact, payable=zero, carried=exact, correction=Decimal(0))
    payable = exact.quantize(unit, rounding=ROUND_HALF_EVEN, context=_ROUNDING)
    return Payable(exact=exact, payable=payable, carried=Decimal(0), correction=subtract(exact, payable))


def asked_of(total: Decimal, *, before: Decimal, exponent: int) -> Payable:
    """Return the amount that an invoice charges after earlier invoices charged `before`.

    `total` is exact and includes the amount carried in. All invoices together charge their exact sum, rounded
    half-even.
    """
    whole = exact_sum([before, total])
    asked = max(subtract(payable_of(whole, exponent=exponent).payable, before), Decimal(0))
    return Payable(exact=total, payable=asked, carried=subtract(total, asked), correction=Decimal(0))


def tax_of(taxed: Decimal, *, carried_in: Decimal, before: Decimal, exponent: int) -> Payable:
    """Return the tax of an invoice. `taxed` is the exact tax on the amount that the invoice charges. Amounts below one
    minor unit are rounded too: 0.0076 becomes 0.01.
    """
    unit, exact = Decimal(1).scaleb(-exponent), exact_sum([taxed, carried_in])
    whole = exact_sum([before, exact]).quantize(unit, rounding=ROUND_HALF_EVEN, context=_ROUNDING)
    asked = max(subtract(whole, before), Decimal(0))
    return Payable(exact=exact, payable=asked, carried=subtract(exact, asked), correction=Decimal(0))


def shares_of(payable: Decimal, amounts: Sequence[Decimal], *, exponent: int) -> list[Decimal]:
    """Divide a rounded total among exact amounts by the largest remainder method, so that the shares add up to the
    total. Ties go to the earlier line.
    """
    if not amounts:
        return []
    unit = Decimal(1).scaleb(-exponent)
    shares = [amount.quantize(unit, rounding=ROUND_FLOOR, context=_ROUNDING) for amount in amounts]
    missing = int(subtract(payable, exact_sum(shares)).scaleb(exponent))
    order = sorted(range(len(amounts)), key=lambda i: (subtract(shares[i], amounts[i]), i))
    for step in range(abs(missing)):
        index = order[step % len(order)] if missing > 0 else order[-1 - step % len(order)]
        shares[index] = exact_sum([shares[index], unit if missing > 0 else -unit])
    return shares
