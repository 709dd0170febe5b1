"""Faults of the rules, planted one at a time: what compares years must find every one of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from unittest import mock

from apps.pricing.rating import Eligible, Free, Payable, exact_sum, month_start, months, multiply, payable_of, reckoning
from apps.pricing.rating.decimals import subtract
from tests.money import clicks
from tests.money.years import total_of, year_of


def _first_come(parts: Iterable[Eligible], *, taken: int = 0) -> Free:
    """Free operations in the order in which they are listed, which is chance."""
    listed = list(parts)
    left = max((part.allowance for part in listed), default=0) - taken
    operations, amounts = 0, []
    for part in listed:
        free = max(min(part.operations, left), 0)
        operations, left = operations + free, left - free
        amounts.append(multiply(part.worth, free))
    return Free(operations, exact_sum(amounts))


def _given_again(**asked: Any) -> Free:
    return months.free_due(**(asked | {"given": Free()}))


def _topped_again(least: Decimal, *, charged: Decimal, **_: Any) -> Decimal:
    return max(subtract(least, charged), Decimal(0))


def _dropped(total: Decimal, *, exponent: int, **_: Any) -> Payable:
    """Every invoice rounded for itself, and nothing of less than a unit asked for."""
    return replace(payable_of(total, exponent=exponent), carried=Decimal(0))


def _by_month(at: datetime, _: Sequence[datetime]) -> datetime:
    return month_start(at)


def _ended_first(fund: months.Fund) -> tuple[Any, ...]:
    return (fund.over is None, fund.over or fund.start, fund.start, fund.amount, fund.credit)


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "free operations to whatever is listed first": (months, "free_most", _first_come),
    "free operations given again by every invoice": (reckoning, "free_due", _given_again),
    "the minimum asked for again by every invoice": (reckoning, "minimum_due", _topped_again),
    "what rounding leaves dropped": (clicks, "asked_of", _dropped),
    "tax of less than one unit dropped": (clicks, "tax_of", _dropped),
    "credits that never end": (months.Fund, "is_valid", lambda fund, at: fund.start <= at),
    "credits that pay for what was before them": (
        months.Fund,
        "is_valid",
        lambda fund, at: fund.end is None or at < fund.end,
    ),
    "credits by the month instead of the instant": (clicks, "section_of", _by_month),
    "ended credits taken from what waits for an invoice": (clicks.House, "waiting", lambda *_: Decimal(0)),
    "ended credits first": (months.Fund, "order", property(_ended_first)),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The rules with this fault."""
    owner, attribute, fault = FAULTS[name]
    with mock.patch.object(owner, attribute, fault):
        yield


def is_right(seed: int) -> bool:
    """Whether a year comes to the same with no click, and with any; no invoice of it is below nought."""
    dice = random.Random(seed)
    year = year_of(dice)
    try:
        return all(
            clicks.invoiced(year, order, dice) == total_of(year)
            for order in ([], clicks.clicks_of(dice), clicks.clicks_of(dice))
        )
    except AssertionError:
        return False


def found_after(most: int) -> int | None:
    """After how many years a difference is found; None when there is none in so many."""
    return next((seed + 1 for seed in range(most) if not is_right(seed)), None)
