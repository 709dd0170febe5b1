"""The buying limits of an organisation: a credit limit, and a share of each pool. Pure functions.

Acceptance checks them under the organisation's lock, and the page of a quote shows their result beforehand. Both use
the same functions, so a quote that is shown as acceptable will be accepted.
"""

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
    """The general limits, as set by the administrator. None means no limit."""

    newcomer_credit: Decimal | None  # in the quote's currency, in each currency; until a payment method or an approval
    pool_share: Decimal  # of a pool's device time within `horizon`, from 0 to 1
    horizon: timedelta


@dataclass(frozen=True)
class Standing:
    """The standing of one organisation as a buyer, and its own limits."""

    has_payment_method: bool = False
    is_approved: bool = False
    credit: Decimal | None = None
    pool_share: Decimal | None = None

    def credit_under(self, rules: Rules) -> Decimal | None:
        """Return the credit limit; None if there is none."""
        if self.credit is not None:
            return self.credit
        return None if self.is_approved or self.has_payment_method else rules.newcomer_credit

    def share_under(self, rules: Rules) -> Decimal:
        return rules.pool_share if self.pool_share is None else self.pool_share


@dataclass(frozen=True)
class Purchase:
    """A purchase to check: the amounts that it adds, and those already committed and reserved."""

    amount: Decimal
    currency: figures.Currency
    committed: Decimal  # holds of open contracts, plus charges of closed contracts
    seconds: Fraction  # of device time
    ahead: Fraction  # seconds of device time already reserved ahead on the pool
    devices: int
    pool: str
    is_confirmed: bool


def seconds_allowed(share: Decimal, devices: int, horizon: timedelta) -> Fraction:
    """Return the device time that one organisation may reserve in advance on a pool, in seconds."""
    return Fraction(share) * devices * Fraction(int(horizon.total_seconds()))


def refusals(purchase: Purchase, standing: Standing, rules: Rules) -> list[Problem]:
    """Return every reason for a refusal, with its remedy; empty if the quote may be accepted."""
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
        f"Your organisation may commit {money(limit)}. {money(purchase.committed)} is already committed, and this quote needs "
        f"{money(purchase.amount)}. Add a payment method, or ask the administrator to raise the limit.",
        kind="credit-limit",
    )


def _share(purchase: Purchase, allowed: Fraction) -> Problem:
    free = max(allowed - purchase.ahead, Fraction(0))
    return Problem(
        409,
        "Limit on the share of a pool reached",
        f"Your organisation may reserve {figures.duration_format(allowed)} of device time in advance on {purchase.pool}. "
        f"{figures.duration_format(free)} is left, and this quote needs {figures.duration_format(purchase.seconds)}. "
        "Choose another pool or a smaller volume, wait until reserved time has passed, or ask the administrator.",
        kind="pool-share",
    )
