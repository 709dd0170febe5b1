"""The buying limits of an organisation: a credit limit, and a share of each pool. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from apps import figures
from apps.accounts.problems import Problem
from apps.pricing.rating import exact_sum


@dataclass(frozen=True)
class Rules:
    """The general limits. A `newcomer_credit` of None means no credit limit."""

    newcomer_credit: Decimal | None  # in the quote's currency, in each currency; until a payment method or an approval
    pool_share: Decimal  # of a pool's device time within `horizon`, from 0 to 1
    horizon: timedelta


@dataclass(frozen=True)
class Standing:
    """An organisation as a buyer, with its own limits. A limit of None means that the general limit applies."""

    has_payment_method: bool = False
    is_approved: bool = False
    credit: Decimal | None = None
    pool_share: Decimal | None = None

    def credit_under(self, rules: Rules) -> Decimal | None:
        """Return the credit limit; None if no limit applies."""
        if self.credit is not None:
            return self.credit
        return None if self.is_approved or self.has_payment_method else rules.newcomer_credit

    def share_under(self, rules: Rules) -> Decimal:
        return rules.pool_share if self.pool_share is None else self.pool_share


@dataclass(frozen=True)
class Purchase:
    """A purchase to check, with the amounts and device time already committed."""

    amount: Decimal
    currency: figures.Currency
    committed: Decimal  # holds of open contracts, plus charges of closed contracts
    seconds: Fraction  # of device time
    ahead: Fraction  # seconds of device time already reserved ahead on the pool
    devices: int
    pool: str
    is_confirmed: bool


def seconds_allowed(share: Decimal, devices: int, horizon: timedelta) -> Fraction:
    """Return the seconds of device time that one organisation may reserve in advance on a pool."""
    return Fraction(share) * devices * Fraction(int(horizon.total_seconds()))


def refusals(purchase: Purchase, standing: Standing, rules: Rules) -> list[Problem]:
    """Return all reasons to refuse the purchase; empty if the purchase is allowed."""
    found: list[Problem] = []
    if not purchase.is_confirmed:
        found.append(
            Problem(
                403,
                "Confirm your e-mail address",
                "Sign in and follow the link in our e-mail, then accept the quote.",
                kind="email-not-confirmed",
            )
        )
    limit = standing.credit_under(rules)
    if limit is not None and exact_sum([purchase.committed, purchase.amount]) > limit:
        found.append(_credit(purchase, limit))
    allowed = seconds_allowed(standing.share_under(rules), purchase.devices, rules.horizon)
    if standing.share_under(rules) < 1 and purchase.ahead + purchase.seconds > allowed:
        found.append(_share(purchase, allowed))
    return found


def _credit(purchase: Purchase, limit: Decimal) -> Problem:
    def money(amount: Decimal) -> str:
        return figures.money_format(amount, purchase.currency)

    return Problem(
        409,
        "Credit limit reached",
        f"Your organisation may commit at most {money(limit)}. {money(purchase.committed)} is already "
        "committed, and this quote needs "
        f"{money(purchase.amount)}. Add a payment method, or ask the administrator to raise the limit.",
        kind="credit-limit",
    )


def _share(purchase: Purchase, allowed: Fraction) -> Problem:
    free = max(allowed - purchase.ahead, Fraction(0))
    return Problem(
        409,
        "Pool share limit reached",
        f"Your organisation may reserve at most {figures.duration_format(allowed)} of device time in advance on {purchase.pool}. "
        f"{figures.duration_format(free)} is left, and this quote needs {figures.duration_format(purchase.seconds)}. "
        "Choose another pool or a smaller volume, wait until some of your reserved time has passed, or ask the administrator.",
        kind="pool-share",
    )
