"""The one rounding, half-even, to the currency's smallest unit: of a quote's total, and of all invoices together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

from apps.pricing.rating.decimals import exact_sum, subtract

_ROUNDING = Context(prec=120, traps=[InvalidOperation])


@dataclass(frozen=True)
class Payable:
    """An exact total and what is to be paid of it: exact == payable + carried + correction, always."""

    exact: Decimal
    payable: Decimal
    carried: Decimal
    correction: Decimal


def payable_of(exact: Decimal, *, exponent: int) -> Payable:
    """Round a total once, half-even. A balance of less than one smallest unit is not asked for but carried whole to the
    next invoice."""
    unit = Decimal(1).scaleb(-exponent)
    zero = Decimal(0).quantize(unit)
    if abs(exact) < unit:
        return Payable(exact=exact, payable=zero, carried=exact, correction=Decimal(0))
    payable = exact.quantize(unit, rounding=ROUND_HALF_EVEN, context=_ROUNDING)
    return Payable(exact=exact, payable=payable, carried=Decimal(0), correction=subtract(exact, payable))


def asked_of(total: Decimal, *, before: Decimal, exponent: int) -> Payable:
    """What an invoice of `total` (with what was carried in) asks for, where those before it asked for `before`.

    All of them together ask for the rounded sum of everything, half-even, and for nothing while that is less than one
    smallest unit; so the sum does not depend on how many invoices there are. What rounding moved is carried, either way.
    """
    whole = exact_sum([before, total])
    asked = max(subtract(payable_of(whole, exponent=exponent).payable, before), Decimal(0))
    return Payable(exact=total, payable=asked, carried=subtract(total, asked), correction=Decimal(0))


def tax_of(taxed: Decimal, *, carried_in: Decimal, before: Decimal, exponent: int) -> Payable:
    """The tax of an invoice: `taxed` is the exact tax on what it asks for. As `asked_of`, but that less than one unit is
    rounded too: 0.0076 is 0.01."""
    unit, exact = Decimal(1).scaleb(-exponent), exact_sum([taxed, carried_in])
    whole = exact_sum([before, exact]).quantize(unit, rounding=ROUND_HALF_EVEN, context=_ROUNDING)
    asked = max(subtract(whole, before), Decimal(0))
    return Payable(exact=exact, payable=asked, carried=subtract(exact, asked), correction=Decimal(0))


def shares_of(payable: Decimal, amounts: Sequence[Decimal], *, exponent: int) -> list[Decimal]:
    """Part a rounded total over its exact lines by largest remainder, so that what is printed adds up.

    Every share differs from its exact amount by less than one smallest unit as long as the total is the rounded sum of
    the amounts. Ties go to the earlier line.
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
